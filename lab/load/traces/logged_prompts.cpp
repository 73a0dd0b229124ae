#include "lab/load/traces/logged_prompts.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "lab/load/traces/formats.hpp"

namespace weir::lab::load::traces {
namespace {

using metrics::wire::PrefixMark;
using Part = TraceEntry::Part;

struct MarkHash {
  std::size_t operator()(const PrefixMark& mark) const { return named(mark.position, mark.key); }
};

std::uint64_t tokens_of(std::span<const Part> parts) {
  return std::accumulate(parts.begin(), parts.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Part& part) { return sum + part.tokens; });
}

std::vector<Part> first_tokens(std::span<const Part> parts, std::uint64_t tokens) {
  std::vector<Part> first;
  for (const Part& part : parts) {
    if (tokens == 0) break;
    first.push_back(part);
    first.back().tokens = std::min(part.tokens, tokens);
    tokens -= first.back().tokens;
  }
  return first;
}

/// Divides a prompt of which only the number of turns is known.
std::vector<Part> even_parts(std::uint64_t conversation, std::uint64_t tokens, std::uint64_t turn) {
  const std::uint64_t count = 2 * turn - 1 <= tokens ? 2 * turn - 1 : 1;
  std::vector<Part> parts;
  for (std::uint64_t i = 0; i < count; ++i) parts.push_back({named(conversation, i), tokens / count, true});
  parts.back().tokens += tokens % count;
  return parts;
}

/// The requests of the log by the ends of their prompts.
class Ends {
 public:
  void add(const LoggedPrompt& prompt, std::size_t i) {
    if (!prompt.marks.empty()) ends_[prompt.marks.back()].push_back(i);
  }
  /// Returns the last request that had ended before this one came and whose whole prompt this one begins with.
  std::optional<std::size_t> before(std::span<const LoggedPrompt> log, const LoggedPrompt& prompt) const {
    for (std::size_t m = prompt.marks.size(); m-- > 1;) {
      const auto found = ends_.find(prompt.marks[m - 1]);
      if (found == ends_.end()) continue;
      const auto ended = std::find_if(found->second.rbegin(), found->second.rend(),
                                      [&](std::size_t i) { return log[i].ended <= prompt.at; });
      if (ended != found->second.rend()) return *ended;
    }
    return std::nullopt;
  }

 private:
  std::unordered_map<PrefixMark, std::vector<std::size_t>, MarkHash> ends_;
};

/// The turns before each turn.
struct Turns {
  std::vector<std::optional<std::size_t>> said;    ///< Its prompt goes on from that of this one.
  std::vector<std::optional<std::size_t>> parent;  ///< The same if that had ended.
};

Turns turns_of(std::span<const LoggedPrompt> log) {
  Turns turns{std::vector<std::optional<std::size_t>>(log.size()), std::vector<std::optional<std::size_t>>(log.size())};
  Ends ends;
  std::unordered_map<std::uint64_t, std::size_t> last_of_group;
  for (std::size_t i = 0; i < log.size(); ++i) {
    const LoggedPrompt& prompt = log[i];
    if (!prompt.marks.empty()) {
      turns.said[i] = turns.parent[i] = ends.before(log, prompt);
      ends.add(prompt, i);
    } else if (prompt.group) {
      const auto [last, is_first] = last_of_group.try_emplace(*prompt.group, i);
      if (is_first) continue;
      if (log[last->second].turn + 1 == prompt.turn) turns.said[i] = last->second;
      if (log[last->second].ended <= prompt.at) turns.parent[i] = last->second;
      last->second = i;
    }
  }
  return turns;
}

/// True unless replicas mostly found the prompt of the turn before, but not its answer.
bool repeats_answers(std::span<const LoggedPrompt> log, const Turns& turns) {
  constexpr std::uint64_t slack = 32;  // Blocks are found as a whole, and a template adds tokens.
  std::int64_t found = 0;
  for (std::size_t i = 0; i < log.size(); ++i) {
    if (!turns.said[i] || !turns.parent[i]) continue;
    const LoggedPrompt &turn = log[i], &before = log[*turns.said[i]];
    if (turn.replica != before.replica || before.output_tokens < 2 * slack) continue;
    if (turn.cached_tokens + slack < before.prompt_tokens) continue;
    found += turn.cached_tokens >= before.prompt_tokens + before.output_tokens / 2 ? 1 : -1;
  }
  return found >= 0;
}

class Writer {
 public:
  Writer(std::span<const LoggedPrompt> log, std::span<TraceEntry> entries)
      : log_(log), entries_(entries), turns_(turns_of(log)), repeats_(repeats_answers(log, turns_)) {}

  void write(std::size_t i) {
    const LoggedPrompt& prompt = log_[i];
    TraceEntry& entry = entries_[i];
    entry.conversation = prompt.marks.empty() ? prompt.group.value_or(i) : i;
    entry.answer = named(i, of_answer);
    if (const auto parent = turns_.parent[i]) {
      entry.parent = parent;
      entry.think = prompt.at - log_[*parent].ended;
      if (!prompt.marks.empty()) entry.conversation = entries_[*parent].conversation;
    }
    if (!prompt.marks.empty()) {
      entry.parts = parts_by_marks(i);
    } else if (const auto said = turns_.said[i]; said && says_more(i, *said)) {
      entry.parts = entries_[*said].parts;
      say(entry.parts, i, said);
    } else {
      entry.parts = even_parts(entry.conversation, prompt.prompt_tokens, prompt.turn);
      shared_ = 0;
    }
  }
  /// Returns how many tokens the prompt that was written last shares with earlier ones.
  std::uint64_t shared() const { return shared_; }

 private:
  static constexpr std::uint64_t of_answer = 1, of_retold = 2, of_request = 3;

  struct Place {
    std::size_t entry = 0;
    std::uint64_t tokens = 0;
  };

  bool says_more(std::size_t i, std::size_t said) const {
    return log_[i].prompt_tokens > log_[said].prompt_tokens + log_[said].output_tokens;
  }

  /// Goes on from the prompt of `said`, if it is given, with its answer, and then with text of the request's own.
  void say(std::vector<Part>& parts, std::size_t i, std::optional<std::size_t> said) {
    if (said)
      parts.push_back({named(repeats_ ? *said : i, repeats_ ? of_answer : of_retold), log_[*said].output_tokens, true});
    const std::uint64_t tokens = shared_ = tokens_of(parts);
    if (tokens >= log_[i].prompt_tokens) {
      // Where an earlier place was estimated, the prompt itself knows better.
      parts = first_tokens(parts, shared_ = log_[i].prompt_tokens);
      return;
    }
    // The last message is the user's.
    const auto messages = std::ranges::count_if(parts, &Part::begins_message);
    parts.push_back({named(i, of_request), log_[i].prompt_tokens - tokens, messages % 2 == 0});
  }

  std::vector<Part> parts_by_marks(std::size_t i) {
    const LoggedPrompt& prompt = log_[i];
    const auto& marks = prompt.marks;
    // How many tokens lie before a mark is known of those that an earlier prompt had, and of the last one.
    std::vector<std::optional<std::uint64_t>> tokens(marks.size());
    std::optional<std::size_t> deepest;
    std::uint64_t least = 0;
    for (std::size_t m = 0; m < marks.size(); ++m) {
      const auto known = known_.find(marks[m]);
      if (known == known_.end()) continue;
      tokens[m] = least = std::clamp(known->second.tokens, least, prompt.prompt_tokens);
      deepest = m;
    }
    std::vector<Part> parts;
    std::optional<std::size_t> said;
    if (deepest) {
      parts = first_tokens(entries_[known_.at(marks[*deepest]).entry].parts, *tokens[*deepest]);
      said = turns_.said[i];
      if (said && (log_[*said].marks.back() != marks[*deepest] || !says_more(i, *said))) said.reset();
    }
    say(parts, i, said);
    tokens.back() = prompt.prompt_tokens;
    add_marks(i, tokens);
    return parts;
  }

  /// The tokens of a text are taken to be spread evenly between places where they are known.
  void add_marks(std::size_t i, std::span<const std::optional<std::uint64_t>> tokens) {
    const auto& marks = log_[i].marks;
    double position = 0, before = 0;
    for (std::size_t m = 0, next = 0; m < marks.size(); ++m) {
      if (!tokens[m]) {
        for (next = std::max(next, m); !tokens[next];) ++next;
        const double share = (static_cast<double>(marks[m].position) - position) /
                             (static_cast<double>(marks[next].position) - position);
        const double here = before + share * (static_cast<double>(*tokens[next]) - before);
        known_.try_emplace(marks[m], Place{i, static_cast<std::uint64_t>(std::llround(here))});
        continue;
      }
      position = static_cast<double>(marks[m].position);
      before = static_cast<double>(*tokens[m]);
      known_.try_emplace(marks[m], Place{i, *tokens[m]});
    }
  }

  std::span<const LoggedPrompt> log_;
  std::span<TraceEntry> entries_;
  const Turns turns_;
  const bool repeats_;
  std::uint64_t shared_ = 0;
  std::unordered_map<PrefixMark, Place, MarkHash> known_;
};

}  // namespace

void give_parts(std::span<const LoggedPrompt> log, std::span<TraceEntry> entries, LogFacts& facts) {
  Writer writer(log, entries);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    writer.write(i);
    // Engines find whole blocks, and how many tokens lie before a mark is an estimate.
    const std::uint64_t shared = writer.shared() + writer.shared() / 20 + 32;
    facts.cached_tokens += log[i].cached_tokens;
    facts.unexplained_tokens += log[i].cached_tokens > shared ? log[i].cached_tokens - shared : 0;
  }
}

}  // namespace weir::lab::load::traces
