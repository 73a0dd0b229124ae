#include "lab/load/traces/mooncake.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lab/engine/words.hpp"
#include "lab/load/traces/formats.hpp"
#include "lab/text.hpp"
#include "metrics/wire/json/writer.hpp"

namespace weir::lab::load::traces {
namespace {

std::optional<std::vector<std::uint64_t>> ids_of(const JsonObject& line) {
  std::vector<std::uint64_t> ids;
  const auto value = value_at(line, "hash_ids");
  if (!value || value->is_null()) return ids;
  JsonArray all;
  if (value->get(all) != simdjson::SUCCESS) return std::nullopt;
  for (const JsonValue id : all) {
    if (!id.is_int64() && !id.is_uint64()) return std::nullopt;
    ids.push_back(id.is_uint64() ? std::uint64_t{id} : static_cast<std::uint64_t>(std::int64_t{id}));
  }
  return ids;
}

bool within(double value, double least, double most) { return value >= least && value <= most; }

std::optional<std::uint64_t> tokens_at(const JsonObject& line, std::string_view key) {
  const double tokens = number_of(line, key).value_or(-1);
  if (!within(tokens, 0, most_tokens)) return std::nullopt;
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(tokens));
}

/// Reads what both formats have. `at` is in ticks. Returns nothing if a value is missing or out of range.
std::optional<TraceEntry> entry_of(const JsonObject& line, double ticks_a_second, std::optional<double> at,
                                   std::optional<std::uint64_t> input) {
  const auto output = tokens_at(line, "output_length");
  auto ids = ids_of(line);
  const double most_ticks = most_seconds * ticks_a_second;
  if (!at || !within(*at, -most_ticks, most_ticks) || !input || !output || !ids) return std::nullopt;
  TraceEntry entry;
  entry.at = *at;
  entry.prompt_tokens = *input;
  entry.output_tokens = *output;
  entry.blocks = std::move(*ids);
  return entry;
}

/// Returns a chat's id, or nothing for what is none: a negative number, null, or "".
std::optional<std::string> chat_at(const JsonObject& line, std::string_view key) {
  const auto value = value_at(line, key);
  if (!value || value->is_null()) return std::nullopt;
  const std::string id = simdjson::minify(*value);
  return id.starts_with('-') || id == "\"\"" || id == "\"-1\"" ? std::nullopt : std::optional(id);
}

constexpr double ms_a_second = 1e3;

/// Mooncake's lines, and AIPerf's with sessions. Times of entries are in milliseconds.
class Sessions {
 public:
  Entry entry(std::string_view text) {
    const JsonObject line = object_or_empty(text);
    const auto session = chat_at(line, "session_id");
    const auto last = session ? last_.find(*session) : last_.end();
    const auto prompt = field<std::string_view>(line, "text_input");
    const double delay = number_of(line, "delay").value_or(0);
    auto input = tokens_at(line, "input_length");
    if (prompt) input = std::max<std::uint64_t>(1, engine::count_tokens(*prompt));
    double at = begun_;
    if (last != last_.end()) at = answered(last->second) + delay;
    const auto told = value_at(line, "timestamp");
    auto entry = entry_of(line, ms_a_second, told ? number_of(line, "timestamp") : at, input);
    if (!entry || !within(delay, 0, most_seconds * ms_a_second)) {
      return "expected {\"timestamp\": milliseconds, \"input_length\": tokens, \"output_length\": tokens, "
             "\"hash_ids\": [numbers]}, with \"session_id\" and \"delay\": milliseconds or \"text_input\" as "
             "AIPerf has them, got \"" +
             beginning_of(text) + "\"";
    }
    entry->conversation = number_;
    if (last != last_.end()) {
      const TraceEntry& before = last->second.entry;
      if (entry->at < before.at) return "its time is before that of the turn before";
      entry->parent = last->second.number;
      entry->think = (told ? std::max(0.0, entry->at - answered(last->second)) : delay) / ms_a_second;
      entry->conversation = before.conversation;
    }
    if (session || prompt) {
      say(*entry, prompt);
      if (last != last_.end() && !text_at(line, "context_mode").starts_with("message_array"))
        go_on_from(*entry, last->second.entry);
    }
    if (static_cast<double>(entry->prompt_tokens) > most_tokens)
      return "its prompt has " + counted(entry->prompt_tokens, "token") + ", more than " +
             fmt::format("{:.0f}", most_tokens);
    if (!entry->parent) begun_ = entry->at;
    if (session) last_.insert_or_assign(*session, Turn{number_, *entry});
    ++number_;
    return *std::move(entry);
  }

 private:
  using Part = TraceEntry::Part;
  struct Turn {
    std::size_t number = 0;
    TraceEntry entry;
  };

  static double answered(const Turn& turn) {
    return turn.entry.at + token_s * ms_a_second * static_cast<double>(turn.entry.output_tokens);
  }

  /// Makes a message of the line's blocks, or of its text.
  void say(TraceEntry& entry, std::optional<std::string_view> text) const {
    std::uint64_t left = entry.prompt_tokens;
    for (const std::uint64_t id : entry.blocks) {
      if (left == 0) break;
      entry.parts.push_back({id, std::min(left, entry.block_tokens), entry.parts.empty()});
      left -= entry.parts.back().tokens;
    }
    const std::uint64_t rest = text ? std::hash<std::string_view>{}(*text) : named(number_, 2);
    if (left > 0) entry.parts.push_back({rest, left, entry.parts.empty()});
    entry.blocks.clear();
    entry.answer = named(number_, 1);
  }
  /// Puts the turn before and its answer in front of a message.
  static void go_on_from(TraceEntry& entry, const TraceEntry& before) {
    std::vector<Part> parts = before.parts;
    parts.push_back({before.answer, before.output_tokens, true});
    parts.insert(parts.end(), entry.parts.begin(), entry.parts.end());
    entry.parts = std::move(parts);
    entry.prompt_tokens += before.prompt_tokens + before.output_tokens;
  }

  std::unordered_map<std::string, Turn> last_;  ///< The last turn of each session.
  std::size_t number_ = 0;
  double begun_ = 0;  ///< The last line that is no turn of an earlier one came then.
};

/// Puts entries into the order of their times. A turn stays behind its parent, whose time is not after its own.
void put_in_order(std::vector<TraceEntry>& entries) {
  std::vector<std::size_t> order(entries.size()), place(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&entries](std::size_t i) { return entries[i].at; });
  std::vector<TraceEntry> sorted;
  for (const std::size_t i : order) {
    place[i] = sorted.size();
    sorted.push_back(std::move(entries[i]));
    if (auto& parent = sorted.back().parent) parent = place[*parent];
  }
  entries = std::move(sorted);
}

}  // namespace

bool is_mooncake(std::string_view first_line) {
  const auto line = object_of(first_line);
  return line && (value_at(*line, "input_length") || value_at(*line, "text_input"));
}

Trace read_mooncake(std::istream& in, std::string first_line, std::size_t limit, LogFacts&) {
  const JsonObject first = object_or_empty(first_line);
  // Sessions may lie one behind the other, each with its own times.
  const bool sessions = value_at(first, "session_id") || !value_at(first, "timestamp");
  Sessions read;
  Trace trace = read_lines(in, std::move(first_line), sessions ? 0 : limit, !sessions,
                           [&read](std::string_view text) { return read.entry(text); });
  auto* const entries = std::get_if<std::vector<TraceEntry>>(&trace);
  if (!entries) return trace;
  if (sessions) put_in_order(*entries);
  if (limit != 0 && entries->size() > limit) entries->resize(limit);
  const double begin = entries->empty() ? 0 : entries->front().at;
  for (TraceEntry& entry : *entries) entry.at = (entry.at - begin) / ms_a_second;
  return trace;
}

bool is_bailian(std::string_view first_line) {
  const auto line = object_of(first_line);
  return line && value_at(*line, "chat_id") && value_at(*line, "timestamp") && value_at(*line, "input_length");
}

Trace read_bailian(std::istream& in, std::string first_line, std::size_t limit, LogFacts&) {
  struct Turn {
    std::size_t entry = 0;
    double at = 0;
    std::uint64_t output_tokens = 0;
  };
  std::unordered_map<std::string, Turn> turns;
  std::optional<double> first;
  std::size_t number = 0;
  return read_lines(in, std::move(first_line), limit, true, [&](std::string_view text) -> Entry {
    const JsonObject line = object_or_empty(text);
    auto entry = entry_of(line, 1, number_of(line, "timestamp"), tokens_at(line, "input_length"));
    const auto chat = chat_at(line, "chat_id"), parent = chat_at(line, "parent_chat_id");
    const auto think = number_of(line, "think");
    if (!entry || !chat || (think && !within(*think, 0, most_seconds))) {
      return "expected {\"chat_id\": id, \"parent_chat_id\": id or -1, \"timestamp\": seconds, \"input_length\": "
             "tokens, \"output_length\": tokens, \"hash_ids\": [numbers]}, and \"think\": seconds if known, got \"" +
             beginning_of(text) + "\"";
    }
    if (!first) first = entry->at;
    entry->at -= *first;
    entry->block_tokens = 16;
    entry->conversation = number;
    if (const auto before = parent ? turns.find(*parent) : turns.end(); before != turns.end()) {
      const Turn& turn = before->second;
      entry->parent = turn.entry;
      const double answered = turn.at + token_s * static_cast<double>(turn.output_tokens);
      entry->think = think.value_or(std::max(0.0, entry->at - answered));
    }
    turns[*chat] = {number++, entry->at, entry->output_tokens};
    return *std::move(entry);
  });
}

namespace {

constexpr std::uint64_t tokens_per_id = 512;

std::uint64_t chained(std::uint64_t chain, std::uint64_t next) {
  std::uint64_t x = (chain ^ next) * 0x9e3779b97f4a7c15u;
  x ^= x >> 32;
  return x * 0xbf58476d1ce4e5b9u;
}

/// Names the beginnings of a prompt: what `ids` has for a beginning is its number.
class Beginnings {
 public:
  explicit Beginnings(std::unordered_map<std::uint64_t, std::uint64_t>& ids) : ids_(ids) {}

  /// The next tokens are the first ones of this text.
  void add(std::uint64_t text, std::uint64_t tokens) {
    for (std::uint64_t i = 0; i < tokens; ++i) {
      chain_ = chained(chained(chain_, text), i);
      if (++count_ % tokens_per_id == 0) name();
    }
  }
  std::vector<std::uint64_t> take() {
    if (count_ % tokens_per_id != 0) name();
    return std::move(named_);
  }

 private:
  void name() { named_.push_back(ids_.try_emplace(chain_, ids_.size()).first->second); }

  std::unordered_map<std::uint64_t, std::uint64_t>& ids_;
  std::uint64_t chain_ = 0, count_ = 0;
  std::vector<std::uint64_t> named_;
};

std::vector<std::uint64_t> ids_of(const TraceEntry& entry, std::unordered_map<std::uint64_t, std::uint64_t>& ids) {
  // Texts of blocks, of parts and of no other request are kept apart, as in lab/load/workload.cpp.
  constexpr std::uint64_t of_block = 1, of_part = 2, own = 3;
  Beginnings beginnings(ids);
  std::uint64_t left = entry.prompt_tokens;
  const auto add = [&](std::uint64_t text, std::uint64_t tokens) {
    const std::uint64_t taken = std::min(left, tokens);
    beginnings.add(text, taken);
    left -= taken;
  };
  for (const std::uint64_t block : entry.blocks) add(chained(of_block, block), entry.block_tokens);
  for (std::size_t i = 0; i < entry.parts.size() && entry.blocks.empty(); ++i)
    add(chained(of_part, entry.parts[i].text), entry.parts[i].tokens);
  add(chained(own, entry.conversation), left);
  return beginnings.take();
}

}  // namespace

void write_mooncake(std::ostream& out, std::span<const TraceEntry> entries) {
  std::unordered_map<std::uint64_t, std::uint64_t> ids;
  for (const TraceEntry& entry : entries) {
    metrics::wire::JsonWriter line;
    line.open('{').key("timestamp").count(static_cast<std::uint64_t>(std::llround(1e3 * std::max(0.0, entry.at))));
    line.key("input_length").count(entry.prompt_tokens).key("output_length").count(entry.output_tokens);
    line.key("hash_ids").open('[');
    for (const std::uint64_t id : ids_of(entry, ids)) line.count(id);
    out << line.close(']').close('}').written() << '\n';
  }
}

}  // namespace weir::lab::load::traces
