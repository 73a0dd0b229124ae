#include "proxy/top/head.hpp"

#include <string_view>

namespace weir::proxy::top {
namespace {

using simdjson::SUCCESS;
using simdjson::dom::array;

constexpr double late_loop_s = 0.02;  ///< A loop's delay is coloured beyond this.

struct Fact {
  std::string text;
  Style style{};
};

/// The facts of the first line, the most important first.
std::vector<Fact> facts_of(Json weir) {
  const auto number = [&](std::string_view path) { return number_at(weir, path); };
  const auto name = text_at(weir, "/instance");
  std::vector<Fact> facts{{"weir " + text_at(weir, "/version") + (name.empty() ? "" : " " + name), bold}};
  bool ready = false;
  if (weir["ready"].get(ready) == SUCCESS) facts.push_back({ready ? "ready" : "NOT READY", ready ? good : loud});
  facts.push_back({"up " + age(number("/uptime_s"))});
  const bool late = number("/loop_delay_p99_s").value_or(0) > late_loop_s;
  facts.push_back({"loop p99 " + latency(number("/loop_delay_p99_s")), late ? bad : plain});
  facts.push_back({"cpu " + short_number(number("/cpu")) + "/" + short_number(number("/threads"))});
  facts.push_back({"mem " + bytes(number("/memory_bytes"))});
  facts.push_back({"conns " + short_number(number("/connections")) + "/" + short_number(number("/connections_limit"))});
  facts.push_back({"settings of " + clock(text_at(weir, "/settings/loaded"))});
  facts.push_back({"overhead p99 " + latency(number("/overhead_p99_s"))});
  facts.push_back({"buffers " + bytes(number("/buffer_bytes")) + "/" + bytes(number("/buffer_limit_bytes"))});
  facts.push_back(
      {"descriptors " + short_number(number("/descriptors")) + "/" + short_number(number("/descriptors_limit"))});
  return facts;
}

/// Adds warnings about weir itself: a weir that is not ready, and the like.
void add_warnings(std::vector<Line>& lines, const Writer& writer, Json weir) {
  bool is_ready = true;
  if (weir["ready"].get(is_ready) == SUCCESS && !is_ready)
    writer.add(lines, "not ready: " + text_at(weir, "/why_not_ready"), loud);
  if (is_true_at(weir, "/draining"))
    writer.add(lines, "weir DRAINS: it takes no more, and ends when its requests have ended", loud);
  if (is_true_at(weir, "/bypass"))
    writer.add(lines, "BYPASS is on: nothing is read or measured; `weir bypass off` ends it", loud);
  bool reloaded = true;
  if (weir.at_pointer("/settings/ok").get(reloaded) == SUCCESS && !reloaded) {
    writer.add(lines, "the last reload FAILED, and weir goes on with the settings before it:", loud);
    array errors;
    if (weir.at_pointer("/settings/errors").get(errors) == SUCCESS)
      for (const auto error : errors) {
        std::string_view text;
        if (error.get(text) == SUCCESS) writer.add(lines, text, bad, 4);
      }
  }
  const auto lost = number_at(weir, "/log/lines_lost").value_or(0);
  if (is_true_at(weir, "/log/loses"))
    writer.add(lines,
               "the request log LOSES lines: " + text_at(weir, "/log/why") + "; " + short_number(lost) + " so far",
               loud);
  else if (lost > 0)
    writer.add(lines, "the request log has lost " + short_number(lost) + (lost == 1 ? " line" : " lines") +
                          " since weir began",
               warn);
  if (is_true_at(weir, "/log/waits_for_reader"))
    writer.add(lines, "the request log waits for a reader of its pipe", warn);
}

}  // namespace

std::vector<Line> head_of(const Json* document, const Writer& writer, const Standing& standing) {
  std::vector<Line> lines{writer.line()};
  if (document == nullptr) {
    lines[0].put(0, "weir top", bold);
  } else {
    const auto time = clock(text_at(*document, "/time")) + " UTC";
    const auto room = writer.columns() > time.size() + 2 ? writer.columns() - time.size() - 2 : 0;
    std::size_t column = 0;
    for (const auto& fact : facts_of((*document)["weir"].value())) {
      if (column + fact.text.size() > room && column > 0) break;
      column = lines[0].put(column, fact.text, fact.style) + 2;
    }
    if (room > 0) lines[0].put(room + 2, time, faded);
  }
  if (!standing.trouble.empty()) {
    const bool has_old = document != nullptr && standing.old;
    writer.add(lines, (has_old ? "what follows is " + age(standing.old) + " old: " : "") + standing.trouble, loud);
  }
  if (document != nullptr) add_warnings(lines, writer, (*document)["weir"].value());
  return lines;
}

}  // namespace weir::proxy::top
