#include "proxy/top/view.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <ranges>
#include <utility>

namespace weir::proxy::top {
namespace {

using simdjson::SUCCESS;
using simdjson::dom::array, simdjson::dom::object;

constexpr double late_seconds = 3.5;   ///< Figures that are older are faded.
constexpr double late_loop_s = 0.02;   ///< A loop's delay is coloured beyond this.
constexpr std::size_t widest_name = 32;
constexpr std::string_view between_columns = " ";

constexpr Style plain{}, bold{Colour::plain, true}, faded{Colour::faded}, good{Colour::good}, warn{Colour::warn},
    bad{Colour::bad}, loud{Colour::bad, true}, title{Colour::faded, true};

/// Lines that belong together.
struct Block {
  std::vector<Line> lines{};
  std::size_t pinned = 0;                ///< So many of its first lines are always there: a table's titles.
  std::size_t least = 0;                 ///< The section gets so many lines before another one gets more than its own.
  int rank = 0;                          ///< The order in which blocks get lines.
  std::optional<std::size_t> anchor{};   ///< The line that is to be seen.
  std::string_view key{};                ///< The key that shows all of it.
  std::size_t granted = 0;
};

class Writer {
 public:
  Writer(std::size_t columns, bool wraps) : columns_(columns), wraps_(wraps) {}

  Line line() const { return Line(columns_); }

  /// Adds a text behind an indent, on as many lines as it takes where all is to be read, and else on one.
  void add(std::vector<Line>& lines, std::string_view text, Style style = {}, std::size_t indent = 0) const {
    const auto width = columns_ > indent + 10 ? columns_ - indent : columns_;
    for (std::size_t part = 0; part == 0 || !text.empty(); ++part) {
      auto size = text.size();
      if (wraps_ && size > width) {
        size = text.rfind(' ', width);
        if (size == text.npos || size == 0) size = width;
      }
      lines.push_back(line());
      lines.back().put(columns_ > width ? indent : 0, text.substr(0, size), style);
      text.remove_prefix(size);
      while (wraps_ && text.starts_with(' ')) text.remove_prefix(1);
      if (!wraps_) break;
    }
  }

  std::size_t columns() const { return columns_; }

 private:
  std::size_t columns_;
  bool wraps_;
};

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

// weir itself

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

/// What of weir itself must not be overlooked.
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
    writer.add(
        lines, "the request log LOSES lines: " + text_at(weir, "/log/why") + "; " + short_number(lost) + " so far", loud);
  else if (lost > 0)
    writer.add(lines, "the request log has lost " + short_number(lost) + (lost == 1 ? " line" : " lines") +
                          " since weir began",
               warn);
  if (is_true_at(weir, "/log/waits_for_reader"))
    writer.add(lines, "the request log waits for a reader of its pipe", warn);
}

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

// Tables

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
    for (const auto& [column, size] : table.columns | std::views::drop(1)) width += size + between_columns.size();
    return width;
  };
  const auto least = std::min<std::size_t>(wanted, 16);
  while (table.columns.size() > 1 && others() + least > room) {
    // Of equal ranks the one to the right goes.
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

void put_cell(Line& line, std::size_t column, std::size_t width, std::string text, Style style, bool left) {
  const auto blank = left || text.size() >= width ? 0 : width - text.size();
  line.put(column + blank, text, style, width - blank);
}

Block table_of(Json document, Section section, const State& state, const Writer& writer, Shown* shown) {
  const auto all = columns_of(section);
  const auto rows = rows_of(document, section, state);
  const auto table = fitted(all, rows, writer.columns());
  Block block{.pinned = 1};
  block.lines.push_back(writer.line());
  std::size_t at = 0;
  for (const auto& [column, width] : table.columns) {
    const bool is_sorted_by =
        shown != nullptr && state.sorted_by == static_cast<std::size_t>(column - all.data()) + 1;
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
      put_cell(line, at, width, std::move(text), coloured ? row.state : plain, is_text(*column));
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

// What is not a table

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
    text += "; " + words(text_at(metric, "/metric")) + " " + words(finding);
    if (number_at(metric, "/low"))
      text += " " + percent_change(number_at(metric, "/estimate")) + " (" + percent_change(number_at(metric, "/low")) +
              " to " + percent_change(number_at(metric, "/high")) + ")";
  }
  return text;
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

/// The events that the filter leaves, the latest first; those about `who` alone where it is not "".
std::vector<Line> events_of(Json document, const Writer& writer, std::string_view filter, std::string_view who = "") {
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

/// Writes each member of a value in a line, under its name in docs/api.md.
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
    {"", "All figures: docs/api.md. The same as JSON: weir top --once --json"},
}};

std::vector<Line> help_lines(const Writer& writer) {
  std::vector<Line> lines;
  for (const auto& [key, says] : help) {
    lines.push_back(writer.line());
    lines.back().put(0, key, bold);
    lines.back().put(key.empty() ? 0 : 13, says);
  }
  return lines;
}

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

// Laying out

/// Gives each block lines until there are none left: first its least, then, in the order of ranks, all it has.
void grant(std::vector<Block>& blocks, std::size_t room) {
  std::vector<Block*> order;
  for (auto& block : blocks) order.push_back(&block);
  std::ranges::sort(order, {}, [](const Block* block) { return block->rank; });
  for (const bool all : {false, true})
    for (auto* const block : order) {
      const auto wanted = all ? block->lines.size() : std::min(block->least, block->lines.size());
      const auto more = std::min(room, wanted - std::min(wanted, block->granted));
      block->granted += more;
      room -= more;
    }
}

/// Appends the lines that a block was granted. Says in the last one how many have no room.
void append(Screen& screen, const Block& block, std::size_t columns) {
  const auto pinned = std::min(block.pinned, block.granted);
  const auto room = block.granted - pinned;
  auto first = pinned;
  if (block.anchor && *block.anchor >= pinned + room && room > 0) first = *block.anchor + 1 - room;
  std::copy_n(block.lines.begin(), pinned, std::back_inserter(screen));
  std::copy_n(block.lines.begin() + static_cast<std::ptrdiff_t>(first), room, std::back_inserter(screen));
  const auto hidden = block.lines.size() - block.granted;
  if (hidden == 0 || room < 2 || block.key.empty() || (block.anchor && first > pinned)) return;
  if (block.anchor && *block.anchor + 1 == first + room) return;
  Line line(columns);
  line.put(0, "  " + std::to_string(hidden + 1) + " more lines: " + std::string(block.key), faded);
  screen.back() = line;
}

std::vector<Block> blocks_of(Json document, Size size, const State& state, const Writer& writer, Shown& shown) {
  std::vector<Block> blocks;
  const auto add = [&](Block block, std::size_t least, int rank, std::string_view key) {
    if (block.lines.size() <= block.pinned) return;
    block.least = least;
    block.rank = rank;
    block.key = key;
    blocks.push_back(std::move(block));
  };
  switch (state.section) {
    case Section::all:
      add(table_of(document, Section::pools, state, writer, nullptr), 3, 2, "p shows them");
      add(findings_of(document, writer), 3, 0, "a larger terminal shows them");
      add(table_of(document, Section::replicas, state, writer, &shown), 7, 1, "r shows them");
      add(shadows_of(document, writer), 2, 3, "a larger terminal shows them");
      add(table_of(document, Section::keys, state, writer, nullptr), 3, 4, "K shows them");
      add(limits_of(document, writer), 1, 5, "");
      {
        constexpr std::size_t printed = 10;
        Block events{.lines = events_of(document, writer, state.filter)};
        if (size.lines == 0 && events.lines.size() > printed) events.lines.resize(printed, writer.line());
        add(std::move(events), 3, 6, "e shows them");
      }
      break;
    case Section::pools:
    case Section::replicas:
    case Section::keys: add(table_of(document, state.section, state, writer, &shown), 0, 0, ""); break;
    case Section::events: add({.lines = events_of(document, writer, state.filter)}, 0, 0, ""); break;
    case Section::row: add({.lines = row_lines(document, state, writer)}, 0, 0, ""); break;
    case Section::help: add({.lines = help_lines(writer)}, 0, 0, ""); break;
    case Section::weir: {
      Block block;
      add_members(block.lines, writer, "", document["weir"].value());
      add(std::move(block), 0, 0, "");
      break;
    }
  }
  return blocks;
}

}  // namespace

View view(const Json* document, Size size, const State& state, const Standing& standing) {
  View made;
  const bool alone = state.section != Section::all;
  const Writer writer(size.columns, alone || size.lines == 0), short_writer(size.columns, size.lines == 0);
  auto head = head_of(document, short_writer, standing);
  auto foot = size.lines == 0 ? std::vector<Line>{} : foot_of(document, state, short_writer);
  if (size.lines > 0) {
    // Whatever is wrong, a few rows are seen.
    if (foot.size() + 1 > size.lines) foot.clear();
    const auto most = std::max<std::size_t>(1, (size.lines - foot.size()) / 2);
    if (head.size() > most) head.erase(head.begin() + static_cast<std::ptrdiff_t>(most), head.end());
  }
  const auto room = size.lines == 0 ? std::string::npos : size.lines - head.size() - foot.size();
  made.screen = std::move(head);
  std::vector<Block> blocks;
  if (document != nullptr) blocks = blocks_of(*document, size, state, writer, made.shown);
  const bool scrolls = alone && blocks.size() == 1 && blocks[0].pinned == 0;
  if (scrolls && blocks[0].lines.size() > room) {
    auto& lines = blocks[0].lines;
    made.shown.last_first = lines.size() - room;
    const auto first = std::min(state.first, made.shown.last_first);
    lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(first));
  }
  grant(blocks, room);
  for (const auto& block : blocks) append(made.screen, block, size.columns);
  made.shown.page = room == std::string::npos ? 10 : std::max<std::size_t>(1, room / 2);
  if (standing.old.value_or(0) > late_seconds)
    for (std::size_t i = 2; i < made.screen.size(); ++i) made.screen[i].set(faded);
  if (size.lines > 0) {
    made.screen.resize(size.lines - foot.size(), Line(size.columns));
    std::ranges::move(foot, std::back_inserter(made.screen));
  }
  return made;
}

}  // namespace weir::proxy::top
