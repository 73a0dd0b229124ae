#include "proxy/top/rows.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <sstream>
#include <tuple>

namespace weir::proxy::top {
namespace {

using simdjson::SUCCESS;
using simdjson::dom::object;

std::string lowered(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return lower;
}

/// Compares names such that gpu2 comes before gpu10.
bool comes_before(std::string_view a, std::string_view b) {
  const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  const auto take_number = [&](std::string_view& text) {
    const auto size = std::min(text.find_first_not_of("0123456789"), text.size());
    auto digits = text.substr(0, size);
    text.remove_prefix(size);
    digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
    return digits;
  };
  const auto whole_a = a, whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a[0]) && is_digit(b[0])) {
      const auto x = take_number(a), y = take_number(b);
      if (x != y) return x.size() != y.size() ? x.size() < y.size() : x < y;
    } else {
      if (a[0] != b[0]) return a[0] < b[0];
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() != b.empty()) return a.empty();
  return whole_a < whole_b;
}

constexpr std::array pool_columns{
    Column{"POOL", 4, 0, As::name},
    Column{"UP", 5, 1, As::of_limit, "/up", "/replicas", false},
    Column{"REQ/S", 5, 1, As::count, "/requests_per_s"},
    Column{"TOK/S", 5, 1, As::count, "/tokens_out_per_s"},
    Column{"IN/S", 5, 7, As::count, "/tokens_in_per_s"},
    Column{"FLIGHT/MAX", 10, 1, As::of_limit, "/in_flight", "/max_in_flight"},
    Column{"WAIT/MAX", 8, 1, As::of_limit, "/waiting", "/queue"},
    Column{"OLDEST", 6, 2, As::time, "/oldest_waiting_s"},
    Column{"TTFT50", 6, 1, As::time, "/ttft_s/p50"},
    Column{"TTFT95", 6, 3, As::time, "/ttft_s/p95"},
    Column{"TPOT50", 6, 6, As::time, "/tpot_s/p50"},
    Column{"FAIL/S", 6, 1, As::count, "/failed_per_s"},
    Column{"REFUS/S", 7, 5, As::count, "/refused_per_s"},
    Column{"SLO%", 5, 4, As::share, "/slo/attainment", "", false},
};

constexpr std::array replica_columns{
    Column{"REPLICA", 7, 0, As::name},
    Column{"POOL", 14, 8, As::text, "/pool"},
    Column{"STATE", 9, 0, As::state, "/state"},
    Column{"FOR", 6, 1, As::lasting, "", "", false},
    Column{"FLIGHT", 7, 1, As::of_limit, "/in_flight", "/max_in_flight"},
    Column{"QTOK", 5, 1, As::count, "/queued_prefill_tokens"},
    Column{"OLDEST", 6, 5, As::time, "/oldest_unanswered_s"},
    Column{"TTFT50", 6, 1, As::time, "/ttft_s/p50"},
    Column{"TTFT95", 6, 9, As::time, "/ttft_s/p95"},
    Column{"TPOT50", 6, 1, As::time, "/tpot_s/p50"},
    Column{"TOK/S", 5, 2, As::count, "/tokens_out_per_s"},
    Column{"PRED+-", 6, 4, As::share, "/prediction_error", "", false},
    Column{"KV%", 5, 3, As::share, "/kv/usage", "/kv/source"},
    Column{"FAIL+RE", 7, 3, As::plus, "/failed_60s", "/retries_60s"},
    Column{"CACHED%", 7, 10, As::share, "/cached_share"},
    Column{"ENGINE", 7, 7, As::plus, "/engine/running", "/engine/waiting"},
    Column{"VERSION", 16, 11, As::words, "/engine/name", "/engine/version"},
};

constexpr std::array key_columns{
    Column{"KEY", 3, 0, As::name},
    Column{"OPEN/MAX", 9, 1, As::of_limit, "/open", "/max_in_flight"},
    Column{"WAIT", 5, 1, As::count, "/waiting"},
    Column{"WAITED", 6, 1, As::time, "/wait_s"},
    Column{"REQ/S", 5, 2, As::count, "/requests_per_s"},
    Column{"TOK/S", 5, 2, As::count, "/tokens_out_per_s"},
    Column{"REFUS/M", 7, 3, As::count, "/refused_60s"},
    Column{"FAIL/M", 6, 4, As::count, "/failed_60s"},
    Column{"IN/S", 5, 5, As::count, "/tokens_in_per_s"},
};

Number order_of(const Column& column, const Row& row) {
  if (column.as == As::lasting) return row.lasts;
  const auto number = number_at(row.data, column.path);
  if (column.as != As::plus) return number;
  const auto second = number_at(row.data, column.second);
  return number || second ? Number(number.value_or(0) + second.value_or(0)) : std::nullopt;
}

int severity(Json finding) {
  const auto text = text_at(finding, "/severity");
  return text == "critical" ? 0 : text == "warning" ? 1 : 2;
}

bool is_about_a_replica(std::string_view what) {
  return what == "slow_replica" || what == "wrong_estimates" || what == "coalescing_upstream" ||
         what == "drain_forgotten" || what == "foreign_load";
}

/// Says whether a finding is about the row of that name.
bool has_finding(const std::vector<Json>& findings, Section section, std::string_view who) {
  return std::ranges::any_of(findings, [&](Json finding) {
    if (text_at(finding, "/who") != who) return false;
    const auto what = text_at(finding, "/what");
    if (section == Section::replicas) return is_about_a_replica(what);
    return what == (section == Section::keys ? "flooding_key" : "saturated_pool");
  });
}

void complete_pool(Row& row) {
  const auto up = number_at(row.data, "/up").value_or(0), all = number_at(row.data, "/replicas").value_or(0);
  const bool none = all > 0 && up == 0;
  const bool troubled = number_at(row.data, "/failed_per_s").value_or(0) > 0 ||
                        number_at(row.data, "/waiting").value_or(0) > 0 || row.is_found;
  row.bad = none ? 0 : 1;
  row.state.colour = none ? Colour::bad : troubled ? Colour::warn : Colour::good;
}

void complete_replica(Row& row, std::string_view time) {
  const auto state = text_at(row.data, "/state");
  static const std::map<std::string, std::pair<double, Colour>> states{{"down", {0, Colour::bad}},
                                                                       {"ejected", {1, Colour::bad}},
                                                                       {"draining", {3, Colour::warn}},
                                                                       {"starting", {4, Colour::warn}},
                                                                       {"up", {5, Colour::good}}};
  const auto known = states.find(state);
  row.bad = known == states.end() ? 0 : known->second.first;
  row.state.colour = known == states.end() ? Colour::bad : known->second.second;
  if (row.is_found && row.bad > 2) {
    row.bad = 2;
    row.state.colour = Colour::warn;
  }
  if (text_at(row.data, "/role") == "shadow") row.bad += 0.5;
  row.lasts = between(text_at(row.data, "/since"), time);
  if (state != "up" || is_true_at(row.data, "/asleep")) row.below = text_at(row.data, "/reason");
}

/// All that the filter of a row looks at.
std::string filtered_text(const Row& row, const std::vector<Json>& findings) {
  auto text = row.name;
  for (const auto* path : {"/pool", "/state", "/role", "/config", "/gpu", "/url", "/reason", "/engine/model",
                           "/engine/version"})
    text += " " + text_at(row.data, path);
  for (const auto finding : findings)
    if (text_at(finding, "/who") == row.name) text += " " + text_at(finding, "/what");
  return text;
}

/// Orders by a column; unknown values are last.
bool is_before(const Row& a, const Row& b, const Column& column) {
  if (is_text(column)) {
    const auto x = text_of(column, a), y = text_of(column, b);
    return x != y ? comes_before(x, y) : comes_before(a.name, b.name);
  }
  const auto x = order_of(column, a), y = order_of(column, b);
  if (x.has_value() != y.has_value()) return x.has_value();
  if (x && *x != *y) return column.descends ? *x > *y : *x < *y;
  return comes_before(a.name, b.name);
}

}  // namespace

bool is_text(const Column& column) {
  return column.as == As::name || column.as == As::text || column.as == As::state || column.as == As::words;
}

std::string text_of(const Column& column, const Row& row) {
  const auto number = [&] { return number_at(row.data, column.path); };
  switch (column.as) {
    case As::name: return row.name;
    case As::text: return text_at(row.data, column.path);
    case As::state: return text_at(row.data, column.path) + (row.is_found ? "!" : "");
    case As::lasting: return age(row.lasts);
    case As::count: return short_number(number());
    case As::time: return latency(number());
    case As::share:
      return percent(number()) + (!column.second.empty() && text_at(row.data, column.second) == "weir" ? "*" : "");
    case As::of_limit: {
      const auto limit = number_at(row.data, column.second);
      return short_number(number()) + (limit ? "/" + short_number(limit) : "");
    }
    case As::plus:
      if (!order_of(column, row)) break;
      return short_number(number()) + "+" + short_number(number_at(row.data, column.second));
    case As::words: {
      const auto first = text_at(row.data, column.path), second = text_at(row.data, column.second);
      if (first.empty() && second.empty()) break;
      return first + (first.empty() || second.empty() ? "" : " ") + second;
    }
  }
  return std::string(unknown);
}

Number number_at(Json value, std::string_view path) {
  double number = 0;
  if (value.at_pointer(path).get(number) != SUCCESS) return {};
  return number;
}

std::string text_at(Json value, std::string_view path) {
  std::string_view text;
  if (value.at_pointer(path).get(text) != SUCCESS) return {};
  return std::string(text);
}

bool is_true_at(Json value, std::string_view path) {
  bool is_true = false;
  return value.at_pointer(path).get(is_true) == SUCCESS && is_true;
}

std::span<const Column> columns_of(Section section) {
  if (section == Section::pools) return pool_columns;
  if (section == Section::keys) return key_columns;
  return replica_columns;
}

std::vector<Row> rows_of(Json document, Section section, const State& state) {
  const auto* const member = section == Section::pools ? "pools" : section == Section::keys ? "keys" : "replicas";
  std::vector<Row> rows;
  object members;
  if (document[member].get(members) != SUCCESS) return rows;
  const auto findings = sorted_findings(document);
  const auto time = text_at(document, "/time");
  for (const auto [key, data] : members) {
    Row row{std::string(key), data};
    row.is_found = has_finding(findings, section, key);
    if (section == Section::pools) {
      complete_pool(row);
    } else if (section == Section::keys) {
      const auto waiting = number_at(data, "/waiting").value_or(0);
      row.bad = (row.is_found ? -1e9 : 0) - waiting;
      row.state.colour = row.is_found || waiting > 0 ? Colour::warn : Colour::plain;
    } else {
      complete_replica(row, time);
    }
    if (matches(state.filter, filtered_text(row, findings))) rows.push_back(std::move(row));
  }
  // Columns are sorted by in the section that has the keys; others have the worst first.
  const bool has_keys = state.section == section || (state.section == Section::all && section == Section::replicas);
  const auto columns = columns_of(section);
  const auto by = has_keys && state.sorted_by <= columns.size() ? state.sorted_by : 0;
  std::ranges::sort(rows, [&](const Row& a, const Row& b) {
    if (by > 0) return is_before(a, b, columns[by - 1]);
    return a.bad != b.bad ? a.bad < b.bad : comes_before(a.name, b.name);
  });
  return rows;
}

std::vector<Json> sorted_findings(Json document) {
  std::vector<std::tuple<int, std::string, std::string, Json>> findings;
  object members;
  if (document["findings"].get(members) == SUCCESS)
    for (const auto [key, finding] : members)
      findings.emplace_back(severity(finding), text_at(finding, "/since"), std::string(key), finding);
  std::ranges::sort(findings, [](const auto& a, const auto& b) {
    if (std::get<0>(a) != std::get<0>(b)) return std::get<0>(a) < std::get<0>(b);
    if (std::get<1>(a) != std::get<1>(b)) return std::get<1>(a) > std::get<1>(b);
    return comes_before(std::get<2>(a), std::get<2>(b));
  });
  std::vector<Json> sorted;
  sorted.reserve(findings.size());
  for (const auto& finding : findings) sorted.push_back(std::get<3>(finding));
  return sorted;
}

bool matches(std::string_view filter, std::string_view text) {
  const auto lower = lowered(text);
  std::istringstream all(lowered(filter));
  for (std::string word; all >> word;) {
    const bool absent = word.size() > 1 && word[0] == '-';
    if ((lower.find(absent ? word.substr(1) : word) != std::string::npos) == absent) return false;
  }
  return true;
}

}  // namespace weir::proxy::top
