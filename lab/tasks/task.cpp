#include "lab/tasks/task.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <unordered_set>
#include <vector>

#include "lab/engine/words.hpp"
#include "lab/tasks/number_words.hpp"
#include "lab/text.hpp"

namespace weir::lab::tasks {

extern const std::string_view sonnets_text;  ///< The build makes it of sonnets.txt.

namespace {

// The number comes first, so that no two prompts begin alike and a prefix cache finds nothing.
constexpr std::string_view ask_number =
    ": this is a number in words. Write it in digits, without separators, as the first line of your answer.\nBelow it, "
    "copy ";
constexpr std::string_view ask_lines =
    " lines of the following poem, in any order, one in each line. Add nothing else.\n\n";

constexpr std::uint64_t tokens_of_a_line = 10;

std::uint64_t lines_for(std::uint64_t output_tokens) { return output_tokens / tokens_of_a_line + 1; }

/// Takes the first line from `text`; a line ends at a line break.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return line;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Returns a line's letters, in lower case.
std::string letters_of(std::string_view line) {
  std::string out;
  for (const char c : line) {
    const char lower = static_cast<char>(static_cast<unsigned char>(c) | 0x20u);
    if (lower >= 'a' && lower <= 'z') out += lower;
  }
  return out;
}

/// Returns the number of a line, such as "402,091" or "The number is 402091."; nothing if it has none or several.
std::optional<std::uint64_t> number_of_line(std::string_view line) {
  std::string digits;
  bool ended = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (is_digit(line[i])) {
      if (ended) return std::nullopt;
      digits += line[i];
    } else if (!digits.empty()) {
      const bool separator = (line[i] == ',' || line[i] == ' ') && i + 1 < line.size() && is_digit(line[i + 1]);
      ended = ended || !separator;
    }
  }
  return number_in<std::uint64_t>(digits);
}

/// The lines that stand in a prompt's list.
std::vector<std::string_view> lines_of(std::string_view prompt) {
  std::vector<std::string_view> lines;
  const std::size_t at = prompt.find(ask_lines);
  if (at == std::string_view::npos) return lines;
  prompt.remove_prefix(at + ask_lines.size());
  while (!prompt.empty()) lines.push_back(take_line(prompt));
  return lines;
}

/// Returns as many words of a line as have at most `tokens`.
std::string_view cut(std::string_view line, std::uint64_t tokens) {
  std::string_view fits;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = line.find(' ', end + 1);
    const std::string_view part = line.substr(0, end);
    if (engine::count_tokens(part) > tokens) break;
    fits = part;
  }
  return fits;
}

}  // namespace

std::span<const std::string_view> sonnet_lines() {
  static const std::vector<std::string_view> lines = [] {
    std::vector<std::string_view> out;
    for (std::string_view left = sonnets_text; !left.empty();) out.push_back(take_line(left));
    return out;
  }();
  return lines;
}

Task make_task(std::uint64_t prompt_tokens, std::uint64_t output_tokens, engine::Random random) {
  Task task;
  task.number = 1'000 + random.below(999'000);
  const std::uint64_t wanted = lines_for(output_tokens);
  task.prompt = in_words(task.number);
  task.prompt.append(ask_number).append(std::to_string(wanted)).append(ask_lines);

  const auto sonnets = sonnet_lines();
  std::vector<std::size_t> order(sonnets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::uint64_t tokens = engine::count_tokens(task.prompt);
  for (std::size_t i = 0;; ++i) {
    const std::size_t at = i % order.size();  // A long prompt has lines more than once.
    if (i < order.size()) std::swap(order[at], order[at + random.below(order.size() - at)]);
    const std::string_view line = sonnets[order[at]];
    const std::uint64_t more = engine::count_tokens(line) + (i > 0 ? 1 : 0);  // The line break before it counts one.
    if (i > 0 && tokens + more > prompt_tokens) {
      if (tokens + 1 < prompt_tokens) {
        const std::string_view part = cut(line, prompt_tokens - tokens - 1);
        if (!part.empty()) task.prompt.append("\n").append(part);
      }
      return task;
    }
    if (i > 0) task.prompt += '\n';
    task.prompt += line;
    tokens += more;
  }
}

Checked check(const Task& task, std::string_view answer) {
  Checked checked;
  std::unordered_set<std::string> known;
  for (const std::string_view line : lines_of(task.prompt)) known.insert(letters_of(line));
  const auto begins_one = [&](const std::string& text) {
    return std::ranges::any_of(known, [&](const std::string& line) { return line.starts_with(text); });
  };
  bool first = true;
  while (!answer.empty()) {
    const std::string_view line = take_line(answer);
    const std::string letters = letters_of(line);
    if (first && (!letters.empty() || number_of_line(line))) {
      first = false;
      checked.right_number = number_of_line(line) == task.number;
      continue;
    }
    if (letters.empty()) continue;
    ++checked.lines;
    const bool last = answer.find_first_not_of(" \r\n") == std::string_view::npos;
    if (known.contains(letters) || (last && begins_one(letters))) ++checked.right_lines;
  }
  return checked;
}

bool is_task(std::string_view prompt) {
  // The longest number in words is shorter than this.
  const std::size_t at = prompt.substr(0, 256).find(ask_number);
  return at != std::string_view::npos && number_of(prompt.substr(0, at)) && !lines_of(prompt).empty();
}

std::string solve(std::string_view prompt, double wrong, engine::Random& random) {
  const std::size_t at = prompt.find(ask_number);
  std::string answer = std::to_string(number_of(prompt.substr(0, at)).value_or(0));
  if (random.uniform() < wrong) answer.back() = answer.back() == '9' ? '0' : static_cast<char>(answer.back() + 1);
  std::uint64_t wanted = 0;
  const std::string_view behind = prompt.substr(at + ask_number.size());
  std::from_chars(behind.data(), behind.data() + behind.size(), wanted);
  const auto lines = lines_of(prompt);
  for (std::uint64_t i = 0; i < wanted; ++i) {
    const std::string_view line = lines[random.below(lines.size())];
    answer += '\n';
    if (random.uniform() < wrong) {
      answer.append("And so the river ran on, ").append(line);
    } else {
      answer += line;
    }
  }
  return answer;
}

}  // namespace weir::lab::tasks
