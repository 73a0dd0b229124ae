#include <algorithm>
#include <optional>

#include "lab/json_fields.hpp"
#include "lab/load/traces/formats.hpp"

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
constexpr double most_milliseconds = 4e12;

bool within(double value, double least, double most) { return value >= least && value <= most; }

}  // namespace

bool is_mooncake(std::string_view first_line) {
  const auto line = object_of(first_line);
  return line && value_at(*line, "timestamp") && value_at(*line, "input_length");
}

Trace read_mooncake(std::istream& in, std::string first_line, std::size_t limit) {
  std::optional<double> first;
  std::uint64_t number = 0;
  return read_lines(in, std::move(first_line), limit, true, [&](std::string_view text) -> Entry {
    const JsonObject line = object_or_empty(text);
    const auto at = number_of(line, "timestamp");
    const double input = number_of(line, "input_length").value_or(-1);
    const double output = number_of(line, "output_length").value_or(-1);
    auto ids = ids_of(line);
    if (!at || !within(*at, -most_milliseconds, most_milliseconds) || !within(input, 0, most_tokens) ||
        !within(output, 0, most_tokens) || !ids) {
      return "expected {\"timestamp\": milliseconds, \"input_length\": tokens, \"output_length\": tokens, "
             "\"hash_ids\": [numbers]}, got \"" +
             std::string(text.substr(0, 100)) + "\"";
    }
    if (!first) first = *at;
    TraceEntry entry;
    entry.at = (*at - *first) / 1e3;
    entry.prompt_tokens = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(input));
    entry.output_tokens = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(output));
    entry.blocks = std::move(*ids);
    entry.conversation = number++;
    return entry;
  });
}

}  // namespace weir::lab::load::traces
