#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "lab/json_fields.hpp"
#include "lab/load/traces/formats.hpp"
#include "lab/text.hpp"

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

/// A timestamp far from those of this age is a mistake, and would not fit a timer.
constexpr double most_seconds = 4e9;

bool within(double value, double least, double most) { return value >= least && value <= most; }

/// Reads what both formats have. `at` is in ticks. Returns nothing if a value is missing or out of range.
std::optional<TraceEntry> entry_of(const JsonObject& line, double ticks_a_second) {
  const auto at = number_of(line, "timestamp");
  const double input = number_of(line, "input_length").value_or(-1);
  const double output = number_of(line, "output_length").value_or(-1);
  auto ids = ids_of(line);
  const double most_ticks = most_seconds * ticks_a_second;
  if (!at || !within(*at, -most_ticks, most_ticks) || !within(input, 0, most_tokens) ||
      !within(output, 0, most_tokens) || !ids) {
    return std::nullopt;
  }
  TraceEntry entry;
  entry.at = *at;
  entry.prompt_tokens = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(input));
  entry.output_tokens = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(output));
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

}  // namespace

bool is_mooncake(std::string_view first_line) {
  const auto line = object_of(first_line);
  return line && value_at(*line, "timestamp") && value_at(*line, "input_length");
}

Trace read_mooncake(std::istream& in, std::string first_line, std::size_t limit) {
  std::optional<double> first;
  std::uint64_t number = 0;
  return read_lines(in, std::move(first_line), limit, true, [&](std::string_view text) -> Entry {
    auto entry = entry_of(object_or_empty(text), 1e3);
    if (!entry) {
      return "expected {\"timestamp\": milliseconds, \"input_length\": tokens, \"output_length\": tokens, "
             "\"hash_ids\": [numbers]}, got \"" +
             beginning_of(text) + "\"";
    }
    if (!first) first = entry->at;
    entry->at = (entry->at - *first) / 1e3;
    entry->conversation = number++;
    return *std::move(entry);
  });
}

bool is_bailian(std::string_view first_line) {
  const auto line = object_of(first_line);
  return line && value_at(*line, "chat_id") && value_at(*line, "timestamp") && value_at(*line, "input_length");
}

Trace read_bailian(std::istream& in, std::string first_line, std::size_t limit) {
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
    auto entry = entry_of(line, 1);
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
      const double answered = turn.at + bailian_token_s * static_cast<double>(turn.output_tokens);
      entry->think = think.value_or(std::max(0.0, entry->at - answered));
    }
    turns[*chat] = {number++, entry->at, entry->output_tokens};
    return *std::move(entry);
  });
}

}  // namespace weir::lab::load::traces
