#include "proxy/top/lists.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>

#include "metrics/format.hpp"

namespace weir::proxy::top {
namespace {

using simdjson::SUCCESS;
using simdjson::dom::array, simdjson::dom::object;

std::string joined(const std::vector<std::string>& parts, std::string_view by) {
  std::string text;
  for (const auto& part : parts) text.append(text.empty() ? "" : by).append(part);
  return text;
}

std::vector<std::string> counts_of(Json data, std::string_view path) {
  std::vector<std::string> counts;
  object members;
  if (data.at_pointer(path).get(members) != SUCCESS) return counts;
  for (const auto [word, count] : members) {
    double number = 0;
    if (count.get(number) == SUCCESS) counts.push_back(words(word) + " " + short_number(number));
  }
  return counts;
}

std::string percent_change(Number share) {
  if (!share) return std::string(unknown);
  return (*share < 0 ? "-" : "+") + percent(std::abs(*share)) + " %";
}

/// The comparison of a shadow in a line: what differs beyond its margin, or how much is still lacking.
std::string comparison_text(Json comparison) {
  std::string text = short_number(number_at(comparison, "/pairs")) + " pairs";
  if (const auto answers = text_at(comparison, "/answers"); answers == "differs") text += ", answers differ";
  if (text_at(comparison, "/state") == "too_few") return text + ", no verdict yet";
  array metrics;
  if (comparison["metrics"].get(metrics) != SUCCESS) return text;
  for (const auto metric : metrics) {
    const auto finding = text_at(metric, "/finding");
    const auto name = text_at(metric, "/metric");
    text += "; " + words(name) + " " + words(finding);
    const auto change = [&](const char* of) {  // That of stalls is in seconds per 1000 requests.
      const auto by = number_at(metric, of);
      return name == "stalls" && by ? metrics::format("%+.0f s", *by) : percent_change(by);
    };
    if (number_at(metric, "/low"))
      text += " " + change("/estimate") + " (" + change("/low") + " to " + change("/high") + ")";
  }
  return text;
}

}  // namespace

Block findings_of(Json document, const Writer& writer) {
  Block block;
  const auto time = text_at(document, "/time");
  for (const auto finding : sorted_findings(document)) {
    const bool critical = text_at(finding, "/severity") == "critical";
    writer.add(block.lines, (critical ? "!! " : "!  ") + text_at(finding, "/text") + " (for " +
                                age(between(text_at(finding, "/since"), time)) + ")",
               critical ? loud : warn);
  }
  return block;
}

Block shadows_of(Json document, const Writer& writer) {
  Block block;
  object members;
  if (document["shadows"].get(members) == SUCCESS) {
    for (const auto [name, shadow] : members) {
      const bool on = is_true_at(shadow, "/on");
      auto text = "shadow " + std::string(name) + (on ? "" : " is OFF") + ": sent " +
                  short_number(number_at(shadow, "/sent_60s")) + "/min";
      if (const auto dropped = counts_of(shadow, "/dropped_60s"); !dropped.empty())
        text += ", dropped " + joined(dropped, ", ");
      text += ", in flight " + short_number(number_at(shadow, "/in_flight")) + "/" +
              short_number(number_at(shadow, "/max_in_flight"));
      if (const auto silent = number_at(shadow, "/silent_s"); silent.value_or(0) >= 2)
        text += ", no token for " + age(silent);
      Json comparison;
      if (shadow["comparison"].get(comparison) == SUCCESS && !comparison.is_null())
        text += "; " + comparison_text(comparison);
      writer.add(block.lines, text, on ? plain : warn);
    }
  }
  if (document["rollouts"].get(members) == SUCCESS)
    for (const auto [name, rollout] : members)
      writer.add(block.lines, "rollout " + std::string(name) + ": " + words(text_at(rollout, "/state")) + ", gets " +
                                  percent(number_at(rollout, "/share")) + " % of the requests");
  return block;
}

Block limits_of(Json document, const Writer& writer) {
  Block block;
  const auto weir = document["weir"].value();
  if (const auto hits = counts_of(weir, "/limits_60s"); !hits.empty())
    writer.add(block.lines, "limits hit in 60 s: " + joined(hits, ", "), warn);
  if (const auto ends = text_at(weir, "/certificate_ends"); !ends.empty())
    writer.add(block.lines, "the certificate ends " + ends.substr(0, 10), faded);
  return block;
}

std::vector<Line> events_of(Json document, const Writer& writer, std::string_view filter, std::string_view who) {
  std::vector<std::pair<double, Json>> events;
  object members;
  if (document["events"].get(members) == SUCCESS)
    for (const auto [key, event] : members) events.emplace_back(number_at(event, "/seq").value_or(0), event);
  std::ranges::sort(events, std::greater{}, &std::pair<double, Json>::first);
  std::vector<Line> lines;
  for (const auto& [seq, event] : events) {
    const auto text = text_at(event, "/text"), about = text_at(event, "/who"), level = text_at(event, "/level");
    if (!who.empty() && about != who) continue;
    if (!matches(filter, text + " " + about + " " + text_at(event, "/what") + " " + level)) continue;
    writer.add(lines, clock(text_at(event, "/time")) + " " + text,
               level == "error" ? bad : level == "warning" ? warn : plain);
  }
  return lines;
}

}  // namespace weir::proxy::top
