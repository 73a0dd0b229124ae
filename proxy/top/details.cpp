#include "proxy/top/details.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "proxy/top/lists.hpp"

namespace weir::proxy::top {
namespace {

using simdjson::SUCCESS;
using simdjson::dom::array, simdjson::dom::object;

/// Returns "gpu1 reset after 310ms, then gpu0"; "" where there was one attempt.
std::string attempts_text(Json request) {
  std::string text;
  array tried;
  if (request["tried"].get(tried) != SUCCESS) return text;
  for (const auto one : tried) {
    text += (text.empty() ? "" : ", then ") + text_at(one, "/replica");
    const auto why = text_at(one, "/why");
    if (why.empty()) continue;
    const auto from = number_at(one, "/from_s"), to = number_at(one, "/to_s");
    text += " " + words(why);
    if (const auto status = number_at(one, "/status")) text += " " + short_number(status);
    if (from && to) text += " after " + latency(*to - *from);
  }
  return text;
}

/// The slowest and the failed requests of a row, each with the phases of its time.
void add_requests(std::vector<Line>& lines, const Writer& writer, Json document, std::string_view member,
                  std::string_view who) {
  for (const auto* const list : {"failed", "slowest"}) {
    array requests;
    if (document["requests"][list].get(requests) != SUCCESS) continue;
    bool is_first = true;
    for (const auto request : requests) {
      if (text_at(request, "/" + std::string(member)) != who) continue;
      if (std::exchange(is_first, false)) {
        writer.add(lines, "");
        writer.add(lines, std::string(list) == "failed" ? "Failed requests" : "Slowest requests", title);
      }
      auto text = clock(text_at(request, "/time")) + " " + text_at(request, "/id") + " " +
                  words(text_at(request, "/outcome")) + " " + short_number(number_at(request, "/status"));
      for (const auto* const phase : {"earlier", "wait", "connect", "prefill", "decode", "total"})
        if (const auto seconds = number_at(request, "/" + std::string(phase) + "_s"); seconds.value_or(0) > 0)
          text += ", " + std::string(phase) + " " + latency(seconds);
      writer.add(lines, text);
      if (const auto tried = attempts_text(request); !tried.empty()) writer.add(lines, "    " + tried);
    }
  }
}

}  // namespace

void add_members(std::vector<Line>& lines, const Writer& writer, const std::string& name, Json value) {
  const auto under = [&](std::string_view member) { return name + (name.empty() ? "" : ".") + std::string(member); };
  object members;
  array items;
  std::string_view text;
  if (value.get(members) == SUCCESS) {
    for (const auto [key, member] : members) add_members(lines, writer, under(key), member);
  } else if (value.get(items) == SUCCESS) {
    for (std::size_t i = 0; const auto item : items) add_members(lines, writer, under(std::to_string(i++)), item);
  } else if (value.get(text) == SUCCESS) {
    writer.add(lines, name + "  " + std::string(text));
  } else {
    writer.add(lines, name + "  " + (value.is_null() ? std::string(unknown) : simdjson::minify(value)),
               value.is_null() ? faded : plain);
  }
}

std::vector<Line> row_lines(Json document, const State& state, const Writer& writer) {
  const std::string member =
      state.row_of == Section::pools ? "pool" : state.row_of == Section::keys ? "key" : "replica";
  std::vector<Line> lines;
  writer.add(lines, member + " " + state.chosen, bold);
  object rows;
  Json row;
  if (document[member + "s"].get(rows) != SUCCESS || rows.at_key(state.chosen).get(row) != SUCCESS) {
    writer.add(lines, "weir tells no more of it; Esc goes back", warn);
    return lines;
  }
  for (const auto finding : sorted_findings(document))
    if (text_at(finding, "/who") == state.chosen)
      writer.add(lines, text_at(finding, "/text") + "; see " + text_at(finding, "/runbook"), warn);
  add_members(lines, writer, "", row);
  add_requests(lines, writer, document, member, state.chosen);
  if (auto events = events_of(document, writer, "", state.chosen); !events.empty()) {
    writer.add(lines, "");
    writer.add(lines, "Events", title);
    std::ranges::move(events, std::back_inserter(lines));
  }
  return lines;
}

}  // namespace weir::proxy::top
