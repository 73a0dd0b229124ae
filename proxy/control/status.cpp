#include "proxy/control/status.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "proxy/control/client.hpp"
#include "proxy/control/commands.hpp"

namespace weir::proxy::control {
namespace {

namespace json = boost::json;

/// The engine's own count is of the requests that it runs, and of those that it keeps waiting.
constexpr std::array<std::string_view, 9> titles{"replica",       "pool",     "state",    "for",   "in flight",
                                                 "queued tokens", "TTFT p50", "TPOT p50", "engine"};
constexpr std::size_t text_columns = 3;   ///< So many columns are texts, and stand to the left.
constexpr std::size_t longest_name = 16;  ///< A longer one is cut, so that the table fits.
constexpr std::size_t pool_column = 1, least_of_pool = 8;
constexpr std::string_view between_columns = "  ";

std::string text_of(const json::object& object, std::string_view key) {
  return json::value_to<std::string>(object.at(key));
}

std::string cut_to(std::string text, std::size_t width) {
  if (text.size() > width) text.replace(width - 1, text.npos, "~");
  return text;
}

/// Keeps the end of a name, which tells the members of a host's name apart.
std::string name_cut_to(std::string name, std::size_t width) {
  constexpr std::size_t end = 5;
  if (name.size() > width) name.replace(width - end - 1, name.size() - width + 1, "~");
  return name;
}

/// Two or three digits, with the unit that makes them readable.
std::string short_time(double seconds) {
  std::array<char, 32> text{};
  const auto format = [&](const char* how, double value) { std::snprintf(text.data(), text.size(), how, value); };
  if (seconds < 0.001)
    format("%.2f ms", seconds * 1e3);
  else if (seconds < 0.1)
    format("%.1f ms", seconds * 1e3);
  else if (seconds < 1)
    format("%.0f ms", seconds * 1e3);
  else if (seconds < 60)
    format("%.1f s", seconds);
  else
    format("%.0f s", seconds);
  return text.data();
}

/// How long something has been so: "12 s", "5 min", "3 h", "9 d".
std::string age(double seconds) {
  const auto whole = [](double value, const char* unit) {
    return std::to_string(static_cast<long long>(value)) + unit;
  };
  if (seconds < 60) return whole(seconds, " s");
  if (seconds < 3600) return whole(seconds / 60, " min");
  if (seconds < 2 * 86'400) return whole(seconds / 3600, " h");
  return whole(seconds / 86'400, " d");
}

std::string median(const json::value& seconds) {
  return seconds.is_null() ? "-" : short_time(seconds.to_number<double>());
}

using Row = std::array<std::string, titles.size()>;

/// The requests that the engine runs and keeps waiting, by its own count: "12+3".
std::string engine_requests(const json::object& engine) {
  const auto count = [&](std::string_view key) {
    const auto& value = engine.at(key);
    return value.is_null() ? std::string("-") : std::to_string(static_cast<long long>(value.to_number<double>()));
  };
  const auto running = count("running"), waiting = count("waiting");
  return running == "-" && waiting == "-" ? "-" : running + "+" + waiting;
}

Row row_of(const json::object& replica) {
  const auto number = [&](std::string_view key) { return replica.at(key).to_number<double>(); };
  const auto whole = [](double value) { return std::to_string(static_cast<long long>(value)); };
  return {name_cut_to(text_of(replica, "name"), longest_name),
          text_of(replica, "pool"),
          text_of(replica, "state"),
          age(number("state_seconds")),
          whole(number("in_flight")),
          whole(number("queued_prefill_tokens") + number("queued_decode_tokens")),
          median(replica.at("ttft_p50_seconds")),
          median(replica.at("tpot_p50_seconds")),
          engine_requests(replica.at("engine").as_object())};
}

std::string_view colour_of(std::string_view state) {
  if (state == "up") return "\x1b[32m";
  if (state == "down" || state == "ejected") return "\x1b[31m";
  return "\x1b[33m";
}

void write_row(std::string& out, const Row& row, const std::array<std::size_t, titles.size()>& widths,
               std::string_view colour_of_state) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::string blank(widths[i] - row[i].size(), ' ');
    const bool coloured = i == 2 && !colour_of_state.empty();
    if (i > 0) out += between_columns;
    if (i >= text_columns) out += blank;
    if (coloured) out += colour_of_state;
    out += row[i];
    if (coloured) out += "\x1b[0m";
    if (i < text_columns) out += blank;
  }
  out += '\n';
}

using Widths = std::array<std::size_t, titles.size()>;

Widths widths_of(const std::vector<Row>& rows) {
  Widths widths{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  return widths;
}

/// Cuts the names of pools to what the other columns leave.
void fit_pools(std::vector<Row>& rows) {
  const auto widths = widths_of(rows);
  const auto others = std::accumulate(widths.begin(), widths.end(), between_columns.size() * (widths.size() - 1)) -
                      widths[pool_column];
  const auto left = std::max(least_of_pool, status_columns - std::min(status_columns, others));
  for (auto& row : rows) row[pool_column] = name_cut_to(std::move(row[pool_column]), left);
}

/// Returns lines about weir itself. An older version tells less.
std::string about_weir(const json::object& answer) {
  std::string out;
  const auto* const bypass = answer.if_contains("bypass");
  if (bypass != nullptr && bypass->as_bool())
    out += "BYPASS is on: nothing is read or measured; `weir bypass off` ends it\n";
  if (const auto* const shadows = answer.if_contains("shadows")) {
    for (const auto& shadow : shadows->as_array())
      if (!shadow.at("on").as_bool()) out += "shadow " + text_of(shadow.as_object(), "name") + " is off\n";
  }
  const auto* const weir = answer.if_contains("weir");
  if (weir == nullptr) return out;
  if (weir->at("drains").as_bool()) out += "weir DRAINS: it takes no more, and ends when its requests have ended\n";
  const auto& errors = weir->at("last_reload_errors").as_array();
  if (!errors.empty()) out += "the last reload FAILED, and weir goes on with the settings before it:\n";
  for (const auto& error : errors) out += "    " + json::value_to<std::string>(error) + '\n';
  const auto& log = weir->at("log").as_object();
  const auto lost = log.at("lines_lost").to_number<std::uint64_t>();
  if (log.at("loses").as_bool())
    out += "the request log LOSES lines: " + text_of(log, "why") + "; " + std::to_string(lost) + " so far\n";
  else if (lost > 0)
    out += "the request log has lost " + std::to_string(lost) + (lost == 1 ? " line" : " lines") +
           " since weir began\n";
  if (log.at("waits_for_reader").as_bool()) out += "the request log waits for a reader of its pipe\n";
  return out;
}

}  // namespace

std::string status_table(const std::string& answer, bool colours) {
  const auto parsed = json::parse(answer);
  const auto& replicas = parsed.as_object().at("replicas").as_array();
  std::vector<Row> rows(1);
  std::ranges::copy(titles, rows[0].begin());
  for (const auto& one : replicas) rows.push_back(row_of(one.as_object()));
  fit_pools(rows);
  const auto widths = widths_of(rows);
  auto out = about_weir(parsed.as_object());
  write_row(out, rows[0], widths, "");
  bool engines_tell = false;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const auto& row = rows[i + 1];
    const auto& state = row[2];
    engines_tell = engines_tell || row.back() != "-";
    write_row(out, row, widths, colours ? colour_of(state) : "");
    if (state != "up") out += cut_to("    " + text_of(replicas[i].as_object(), "reason"), status_columns) + '\n';
  }
  if (engines_tell) out += "engine: the requests that it runs + those in its own queue, as its metrics last said\n";
  for (const auto& one : parsed.as_object().at("pools").as_array()) {
    const auto& pool = one.as_object();
    const auto waiting = pool.at("waiting").to_number<std::uint64_t>();
    if (waiting == 0) continue;
    out += std::to_string(waiting) + (waiting == 1 ? " request waits" : " requests wait") + " in pool " +
           text_of(pool, "name") + '\n';
  }
  return out;
}

int status(const AdminOptions& admin, bool as_json) {
  try {
    const auto answered = ask_admin(admin_at(admin), "GET", "/api/replicas");
    if (answered.status != 200) throw std::runtime_error(error_message(answered));
    const auto text = as_json ? answered.body : status_table(answered.body, ::isatty(STDOUT_FILENO) == 1);
    std::fputs(text.c_str(), stdout);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weir status: %s\n", error.what());
    return 1;
  }
}

}  // namespace weir::proxy::control
