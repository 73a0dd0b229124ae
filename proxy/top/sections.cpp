#include "proxy/top/sections.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/text.hpp"

namespace weir::proxy::top {
namespace {

constexpr std::size_t widest_name = 32;
constexpr std::string_view between_columns = " ";

struct Table {
  std::vector<std::pair<const Column*, std::size_t>> columns;  ///< With their widths.
};

Table fitted(std::span<const Column> all, const std::vector<Row>& rows, std::size_t room) {
  std::size_t longest = all[0].width;
  for (const auto& row : rows) longest = std::max(longest, row.name.size());
  const auto wanted = std::min(longest, widest_name);
  Table table;
  for (const auto& column : all) table.columns.emplace_back(&column, column.width);
  const auto others = [&] {
    std::size_t width = 0;
    for (auto one = table.columns.begin() + 1; one != table.columns.end(); ++one)
      width += one->second + between_columns.size();
    return width;
  };
  const auto least = std::min<std::size_t>(wanted, 16);
  while (table.columns.size() > 1 && others() + least > room) {
    // Among columns of equal rank the rightmost one goes.
    auto goes = table.columns.begin() + 1;
    for (auto one = goes; one != table.columns.end(); ++one)
      if (one->first->rank >= goes->first->rank) goes = one;
    table.columns.erase(goes);
  }
  const auto left = room > others() ? room - others() : 1;
  table.columns[0].second = std::min(std::max(wanted, least), left);
  return table;
}

/// A name keeps its end, which tells the members of a host's name apart.
std::string name_cut_to(std::string name, std::size_t width) {
  constexpr std::size_t end = 5;
  if (name.size() > width && width > end + 1) name.replace(width - end - 1, name.size() - width + 1, "~");
  return name;
}

void put_cell(Line& line, std::size_t column, std::size_t width, const std::string& text, Style style, bool left) {
  const auto blank = left || text.size() >= width ? 0 : width - text.size();
  line.put(column + blank, text, style, width - blank);
}

}  // namespace

Block table_of(Json document, Section section, const State& state, const Writer& writer, Shown* shown) {
  const auto all = columns_of(section);
  const auto rows = rows_of(document, section, state);
  const auto table = fitted(all, rows, writer.columns());
  Block block{.pinned = 1};
  block.lines.push_back(writer.line());
  std::size_t at = 0;
  for (const auto& [column, width] : table.columns) {
    const bool is_sorted_by = shown != nullptr && state.sorted_by == static_cast<std::size_t>(column - all.data()) + 1;
    const auto style = is_sorted_by ? Style{Colour::plain, true, true} : title;
    put_cell(block.lines[0], at, width, std::string(column->title), style, is_text(*column));
    at += width + between_columns.size();
  }
  if (shown != nullptr) shown->columns = all.size();
  for (const auto& row : rows) {
    auto line = writer.line();
    at = 0;
    for (const auto& [column, width] : table.columns) {
      auto text = text_of(*column, row);
      if (is_text(*column)) text = name_cut_to(std::move(text), width);
      const bool coloured = column->as == As::state || (column->as == As::name && section != Section::replicas);
      put_cell(line, at, width, text, coloured ? row.state : plain, is_text(*column));
      at += width + between_columns.size();
    }
    if (shown != nullptr) {
      shown->rows.push_back(row.name);
      if (row.name == state.chosen) {
        block.anchor = block.lines.size();
        line.set({Colour::plain, false, true});
      }
    }
    block.lines.push_back(std::move(line));
    if (!row.below.empty()) writer.add(block.lines, row.below, row.state, 4);
  }
  if (rows.empty() && !state.filter.empty() && shown != nullptr)
    writer.add(block.lines, "nothing matches the filter; Esc ends it", faded);
  return block;
}

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
      return name == "stalls" && by ? fmt::format("{:+.0f} s", *by) : percent_change(by);
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
    writer.add(block.lines,
               (critical ? "!! " : "!  ") + text_at(finding, "/text") + " (for " +
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
               level == "error"     ? bad
               : level == "warning" ? warn
                                    : plain);
  }
  return lines;
}

namespace {

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
  const std::string member = state.row_of == Section::pools  ? "pool"
                             : state.row_of == Section::keys ? "key"
                                                             : "replica";
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
