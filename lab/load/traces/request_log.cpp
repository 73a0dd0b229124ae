#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "lab/json_fields.hpp"
#include "lab/load/traces/formats.hpp"
#include "lab/text.hpp"
#include "metrics/compare/samples/rfc3339.hpp"

namespace weir::lab::load::traces {
namespace {

/// A request as the log tells it.
struct Logged {
  double at = 0;  ///< Unix seconds.
  std::uint64_t prompt_tokens = 1, output_tokens = 1;
  std::uint64_t turn = 1;
  std::optional<std::uint64_t> group;
};

std::optional<double> first_positive(const JsonObject& line, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (const auto number = number_of(line, key); number && *number >= 1) return number;
  }
  return std::nullopt;
}

/// Divides a prompt of which only the number of turns is known.
std::vector<std::uint64_t> even_parts(std::uint64_t tokens, std::uint64_t turn) {
  const std::uint64_t parts = 2 * turn - 1 <= tokens ? 2 * turn - 1 : 1;
  std::vector<std::uint64_t> lengths(parts, tokens / parts);
  lengths.back() += tokens % parts;
  return lengths;
}

/// The messages of each conversation's last turn.
class Conversations {
 public:
  std::vector<std::uint64_t> messages_of(const Logged& logged) {
    if (!logged.group) return even_parts(logged.prompt_tokens, logged.turn);
    const auto known = last_.find(*logged.group);
    std::vector<std::uint64_t> messages;
    if (known != last_.end() && known->second.turn + 1 == logged.turn) {
      messages = known->second.messages;
      messages.push_back(known->second.output_tokens);
      const std::uint64_t before = std::accumulate(messages.begin(), messages.end(), std::uint64_t{0});
      if (logged.prompt_tokens > before) {
        messages.push_back(logged.prompt_tokens - before);
      } else {
        messages.clear();  // The client had left something out of what was said.
      }
    }
    if (messages.empty()) messages = even_parts(logged.prompt_tokens, logged.turn);
    last_[*logged.group] = {logged.turn, messages, logged.output_tokens};
    return messages;
  }

 private:
  struct Turn {
    std::uint64_t turn = 0;
    std::vector<std::uint64_t> messages;
    std::uint64_t output_tokens = 0;
  };
  std::unordered_map<std::uint64_t, Turn> last_;
};

}  // namespace

bool is_request_log(std::string_view first_line) {
  const auto line = object_of(first_line);
  return line && value_at(*line, "time") && value_at(*line, "outcome") && value_at(*line, "role");
}

Trace read_request_log(std::istream& in, std::string first_line, std::size_t limit, std::uint64_t& left_out) {
  std::vector<Logged> log;
  const auto read = [&](std::string_view text) -> Entry {
    const auto line = object_of(text);
    const auto at = line ? metrics::compare::samples::parse_rfc3339(text_at(*line, "time")) : std::nullopt;
    const auto expected = [&](const char* what) {
      return std::string("expected a line of weir's request log with ") + what + ", got \"" +
             std::string(text.substr(0, 100)) + "\"";
    };
    if (!at) {
      if (in.eof()) return std::monostate();  // The last line has no end: it is being written.
      return expected("\"time\"");
    }
    if (text_at(*line, "role") == "shadow") return std::monostate();
    const auto prompt = first_positive(*line, {"prompt_tokens", "prompt_tokens_estimate"});
    const auto output = first_positive(*line, {"output_tokens", "max_tokens"});
    if (!prompt || !output) {
      ++left_out;
      return std::monostate();
    }
    if (std::max(*prompt, *output) > most_tokens) return expected("lengths of at most 10000000 tokens");
    // A turn has a message of its own at least, so there are no more turns than tokens.
    const double turn = std::min(first_positive(*line, {"turn"}).value_or(1), most_tokens);
    log.push_back({1e-6 * static_cast<double>(*at), static_cast<std::uint64_t>(*prompt),
                   static_cast<std::uint64_t>(*output), static_cast<std::uint64_t>(turn),
                   number_in<std::uint64_t>(text_at(*line, "group"), 16)});
    return std::monostate();
  };
  Trace trace = read_lines(in, std::move(first_line), 0, false, read);
  if (std::holds_alternative<std::string>(trace)) return trace;

  std::ranges::stable_sort(log, {}, &Logged::at);
  if (limit != 0 && log.size() > limit) log.resize(limit);
  Conversations conversations;
  std::vector<TraceEntry> entries;
  for (const Logged& logged : log) {
    TraceEntry entry;
    entry.at = logged.at - log.front().at;
    entry.prompt_tokens = logged.prompt_tokens;
    entry.output_tokens = logged.output_tokens;
    entry.messages = conversations.messages_of(logged);
    entry.conversation = logged.group.value_or(entries.size());
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace weir::lab::load::traces
