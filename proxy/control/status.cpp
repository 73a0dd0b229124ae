#include "proxy/control/status.hpp"

#include <simdjson.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <set>
#include <string_view>
#include <vector>

#include "metrics/format.hpp"
#include "proxy/control/client.hpp"
#include "proxy/control/commands.hpp"

namespace weir::proxy::control {
namespace {

using metrics::format;
using simdjson::dom::array, simdjson::dom::element;

/// The engine's own count is of the requests that it runs, and of those that it keeps waiting.
constexpr std::array<std::string_view, 9> titles{"replica",       "pool",     "state",    "for",   "in flight",
                                                 "queued tokens", "TTFT p50", "TPOT p50", "engine"};
constexpr std::size_t text_columns = 3;   ///< So many columns are texts, and stand to the left.
constexpr std::size_t longest_name = 16;  ///< A longer one is cut, so that the table fits.
constexpr std::size_t pool_column = 1, state_column = 2, least_of_pool = 8;
constexpr std::size_t longest_pool = 48;  ///< The same in the lines about pools.
constexpr std::string_view between_columns = "  ";

std::string text_of(const element& object, std::string_view key) {
  return std::string(object[key].get_string().value());
}

std::string whole(double number) { return std::to_string(static_cast<long long>(number)); }

/// Keeps the end of a name, which tells the members of a host's name apart.
std::string name_cut_to(std::string name, std::size_t width) {
  constexpr std::size_t end = 5;
  if (name.size() > width) name.replace(width - end - 1, name.size() - width + 1, "~");
  return name;
}

/// Two or three digits, with the unit that makes them readable.
std::string short_time(double seconds) {
  if (seconds < 0.001) return format("%.2f ms", seconds * 1e3);
  if (seconds < 0.1) return format("%.1f ms", seconds * 1e3);
  if (seconds < 1) return format("%.0f ms", seconds * 1e3);
  return format(seconds < 60 ? "%.1f s" : "%.0f s", seconds);
}

/// How long something has been so: "12 s", "5 min", "3 h", "9 d".
std::string age(double seconds) {
  if (seconds < 60) return whole(seconds) + " s";
  if (seconds < 3600) return whole(seconds / 60) + " min";
  if (seconds < 2 * 86'400) return whole(seconds / 3600) + " h";
  return whole(seconds / 86'400) + " d";
}

using Row = std::array<std::string, titles.size()>;
using Widths = std::array<std::size_t, titles.size()>;

Row row_of(const element& replica) {
  const auto number = [&](std::string_view key) { return replica[key].get_double().value(); };
  const auto known = [](const element& value, std::string (*shown)(double)) {
    return value.is_null() ? "-" : shown(value.get_double().value());
  };
  const element engine = replica["engine"];
  const auto running = known(engine["running"], whole), waiting = known(engine["waiting"], whole);
  return {name_cut_to(text_of(replica, "name"), longest_name),
          text_of(replica, "pool"),
          text_of(replica, "state"),
          age(number("state_seconds")),
          whole(number("in_flight")),
          whole(number("queued_prefill_tokens") + number("queued_decode_tokens")),
          known(replica["ttft_p50_seconds"], short_time),
          known(replica["tpot_p50_seconds"], short_time),
          running == "-" && waiting == "-" ? "-" : running + "+" + waiting};
}

std::string_view colour_of(std::string_view state) {
  if (state == "up") return "\x1b[32m";
  if (state == "down" || state == "ejected") return "\x1b[31m";
  return "\x1b[33m";
}

void write_row(std::string& out, const Row& row, const Widths& widths, std::string_view colour_of_state) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::string blank(widths[i] - row[i].size(), ' ');
    const bool coloured = i == state_column && !colour_of_state.empty();
    if (i > 0) out += between_columns;
    if (i >= text_columns) out += blank;
    if (coloured) out += colour_of_state;
    out += row[i];
    if (coloured) out += "\x1b[0m";
    if (i < text_columns) out += blank;
  }
  out += '\n';
}

/// Returns a line for each pool of which no replica is up, or may be soon.
std::string about_pools_without_replicas(const element& answer) {
  std::set<std::string> all, served;
  for (const auto replica : answer["replicas"]) {
    if (std::string_view role; replica["role"].get(role) == simdjson::SUCCESS && role != "primary") continue;
    const auto state = text_of(replica, "state");
    all.insert(text_of(replica, "pool"));
    if (state == "up" || state == "starting") served.insert(text_of(replica, "pool"));
  }
  std::string out;
  for (const auto pool : answer["pools"]) {
    const auto name = text_of(pool, "name");
    if (all.contains(name) && !served.contains(name))
      out += "NO REPLICA of pool " + name_cut_to(name, longest_pool) + " is up\n";
  }
  return out;
}

/// Returns a line for each pool in which requests wait. An older version does not tell for how long.
std::string about_queues(const element& answer) {
  std::string out;
  for (const auto pool : answer["pools"]) {
    const std::uint64_t waiting = pool["waiting"];
    if (waiting == 0) continue;
    out += std::to_string(waiting) + (waiting == 1 ? " request waits" : " requests wait") + " in pool " +
           name_cut_to(text_of(pool, "name"), longest_pool);
    if (double oldest = 0; pool["oldest_waiting_s"].get(oldest) == simdjson::SUCCESS)
      out += (waiting == 1 ? ", for " : ", the oldest for ") + short_time(oldest);
    out += '\n';
  }
  return out;
}

Widths widths_of(const std::vector<Row>& rows) {
  Widths widths{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  return widths;
}

/// Cuts the names of pools to what the other columns leave.
void fit_pools(std::vector<Row>& rows) {
  const auto widths = widths_of(rows);
  const auto others =
      std::accumulate(widths.begin(), widths.end(), between_columns.size() * (widths.size() - 1)) - widths[pool_column];
  const auto left = std::max(least_of_pool, status_columns - std::min(status_columns, others));
  for (auto& row : rows) row[pool_column] = name_cut_to(std::move(row[pool_column]), left);
}

/// Returns lines about weir itself. An older version tells less.
std::string about_weir(const element& answer) {
  std::string out;
  const auto is_on = [](const element& object, std::string_view key) { return object[key].get_bool().value(); };
  if (answer["bypass"].error() == simdjson::SUCCESS && is_on(answer, "bypass"))
    out += "BYPASS is on: nothing is read or measured; `weir bypass off` ends it\n";
  if (array shadows; answer["shadows"].get(shadows) == simdjson::SUCCESS) {
    for (const auto shadow : shadows)
      if (!is_on(shadow, "on")) out += "shadow " + text_of(shadow, "name") + " is off\n";
  }
  element weir;
  if (answer["weir"].get(weir)) return out;
  if (is_on(weir, "drains")) out += "weir DRAINS: it takes no more, and ends when its requests have ended\n";
  const array errors = weir["last_reload_errors"];
  if (errors.size() > 0) out += "the last reload FAILED, and weir goes on with the settings before it:\n";
  for (const std::string_view error : errors) out.append("    ").append(error) += '\n';
  const element log = weir["log"];
  const std::uint64_t lost = log["lines_lost"];
  if (is_on(log, "loses"))
    out += "the request log LOSES lines: " + text_of(log, "why") + "; " + std::to_string(lost) + " so far\n";
  else if (lost > 0)
    out +=
        "the request log has lost " + std::to_string(lost) + (lost == 1 ? " line" : " lines") + " since weir began\n";
  if (is_on(log, "waits_for_reader")) out += "the request log waits for a reader of its pipe\n";
  return out;
}

}  // namespace

std::string status_table(const std::string& answer, bool colours) {
  simdjson::dom::parser parser;
  const element parsed = parser.parse(answer);
  std::vector<Row> rows(1);
  std::ranges::copy(titles, rows[0].begin());
  for (const auto replica : parsed["replicas"]) rows.push_back(row_of(replica));
  fit_pools(rows);
  const auto widths = widths_of(rows);
  auto out = about_weir(parsed) + about_pools_without_replicas(parsed) + about_queues(parsed);
  write_row(out, rows[0], widths, "");
  bool engines_tell = false;
  for (std::size_t i = 1; const auto replica : parsed["replicas"]) {
    const auto& row = rows[i++];
    const auto& state = row[state_column];
    engines_tell = engines_tell || row.back() != "-";
    write_row(out, row, widths, colours ? colour_of(state) : "");
    if (state == "up") continue;
    auto reason = "    " + text_of(replica, "reason");
    if (reason.size() > status_columns) reason.replace(status_columns - 1, reason.npos, "~");
    out += reason + '\n';
  }
  if (engines_tell) out += "engine: the requests that it runs + those in its own queue, as its metrics last said\n";
  return out;
}

int status(const AdminOptions& admin, bool as_json) {
  return run_command("status", [&] {
    const auto answer = body_of(ask_admin(admin_at(admin), "GET", "/api/replicas"));
    const auto text = as_json ? answer : status_table(answer, ::isatty(STDOUT_FILENO) == 1);
    std::fputs(text.c_str(), stdout);
    return 0;
  });
}

}  // namespace weir::proxy::control
