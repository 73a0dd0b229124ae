#include "proxy/top/foot.hpp"

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace weir::proxy::top {
namespace {

using simdjson::SUCCESS;
using simdjson::dom::object;

constexpr std::array<std::pair<std::string_view, std::string_view>, 18> help{{
    {"/", "filter the rows: words that must be there, -word that must not"},
    {"s", "sort by the next column; the worst row is first again at the end"},
    {"j k, arrows", "next row, row before; Home, End, Page Up, Page Down"},
    {"Enter", "all that weir tells of the row, with its slow and failed requests"},
    {"Esc", "back, or no filter"},
    {"p r K e", "pools, replicas, clients' keys, events alone; once more: all"},
    {"w", "weir itself"},
    {"d u", "drain, undrain the chosen replica: asks first"},
    {"?", "this help"},
    {"q", "quit"},
    {"", ""},
    {"-", "unknown; a figure that is unknown is never 0"},
    {"STATE!", "a finding is about the replica"},
    {"QTOK", "prompt tokens without a first token, as weir's books have them"},
    {"KV%", "share of the KV cache in use; * is weir's own reckoning"},
    {"FAIL+RE", "requests in 60 s that it failed + that another replica got then"},
    {"ENGINE", "requests that the engine runs + that it keeps waiting"},
    {"", "All figures: docs/reference/api.md. The same as JSON: weir top --once --json"},
}};

std::vector<std::string> question_of(Json document, Change change, const std::string& name) {
  object rows;
  Json row;
  if (document["replicas"].get(rows) != SUCCESS || rows.at_key(name).get(row) != SUCCESS)
    return {"weir tells no more of " + name + "."};
  if (change == Change::undrain)
    return {"Undrain " + name + "? It takes requests again, and starts slowly.",
            "If it is ejected, it comes back at once, on probation."};
  const auto pool = text_at(row, "/pool");
  std::size_t others = 0;
  for (const auto [other, data] : rows)
    others += other != name && text_at(data, "/pool") == pool && text_at(data, "/state") == "up";
  return {"Drain " + name + "? No new request goes to it.",
          "Its " + short_number(number_at(row, "/in_flight")) +
              " requests go on to their end; what has not ended after limits.drain is cut.",
          others > 0 ? "Other replicas of pool " + pool + " that are up: " + std::to_string(others) + "."
                     : "No other replica of pool " + pool + " is up, so weir will refuse.",
          "Undrain (u) takes it back."};
}

}  // namespace

std::vector<Line> foot_of(const Json* document, const State& state, const Writer& writer) {
  std::vector<Line> lines;
  if (state.asks && document != nullptr) {
    for (const auto& sentence : question_of(*document, *state.asks, state.chosen)) writer.add(lines, sentence, warn);
    writer.add(lines, *state.asks == Change::drain ? "y drain   any other key: leave it as it is"
                                                   : "y undrain   any other key: leave it as it is",
               bold);
  } else if (state.types_filter) {
    writer.add(lines, "/" + state.filter + "_   Enter keeps it, Esc ends it", bold);
  } else if (!state.message.empty()) {
    writer.add(lines, state.message, warn);
  } else {
    std::string keys = "q quit  ? help  p r K e parts  s sort  / filter  Enter row  d drain  u undrain";
    if (!state.filter.empty()) keys = "filter: " + state.filter + "  " + keys;
    writer.add(lines, keys, faded);
  }
  return lines;
}

std::vector<Line> help_lines(const Writer& writer) {
  std::vector<Line> lines;
  for (const auto& [key, says] : help) {
    lines.push_back(writer.line());
    lines.back().put(0, key, bold);
    lines.back().put(key.empty() ? 0 : 13, says);
  }
  return lines;
}

}  // namespace weir::proxy::top
