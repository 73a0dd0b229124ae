#include "proxy/top/view.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/top/screen.hpp"
#include "proxy/top/sections.hpp"

namespace weir::proxy::top {
namespace {

constexpr double late_seconds = 3.5;  ///< Figures that are older are faded.

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
    case Section::keys:
      add(table_of(document, state.section, state, writer, &shown), 0, 0, "");
      break;
    case Section::events:
      add({.lines = events_of(document, writer, state.filter)}, 0, 0, "");
      break;
    case Section::row:
      add({.lines = row_lines(document, state, writer)}, 0, 0, "");
      break;
    case Section::help:
      add({.lines = help_lines(writer)}, 0, 0, "");
      break;
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
    writer.add(
        lines,
        "the request log has lost " + short_number(lost) + (lost == 1 ? " line" : " lines") + " since weir began",
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

namespace {

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
    writer.add(lines,
               *state.asks == Change::drain ? "y drain   any other key: leave it as it is"
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

}  // namespace weir::proxy::top
