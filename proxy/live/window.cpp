#include "proxy/live/window.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weir::proxy::live {
namespace {

constexpr float unknown = std::numeric_limits<float>::quiet_NaN();

// In the order in which add() puts the values.
constexpr std::array<std::string_view, 4> of_weir{"cpu", "memory_bytes", "connections", "loop_delay_p99_s"};
constexpr std::array<std::string_view, 7> of_pools{"requests_per_s",   "failed_per_s", "tokens_in_per_s",
                                                   "tokens_out_per_s", "in_flight",    "waiting",
                                                   "ttft_p50_s"};
constexpr std::array<std::string_view, 9> of_replicas{"requests_per_s", "failed_per_s",  "tokens_out_per_s",
                                                      "in_prefill",     "in_decode",     "queued_tokens",
                                                      "kv_usage",       "ttft_p50_s",    "tpot_p50_s"};
constexpr std::array<std::string_view, 3> of_shadows{"in_flight", "sent_per_s", "dropped_per_s"};

template <std::size_t size>
using Values = std::array<std::optional<double>, size>;

}  // namespace

std::span<const std::string_view> Window::figures(Rows rows) {
  switch (rows) {
    case Rows::weir:
      return of_weir;
    case Rows::pools:
      return of_pools;
    case Rows::replicas:
      return of_replicas;
    case Rows::shadows:
      break;
  }
  return of_shadows;
}

std::optional<std::size_t> Window::number_of(Rows rows, std::string_view figure) {
  const auto all = figures(rows);
  const auto found = std::ranges::find(all, figure);
  return found == all.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - all.begin()));
}

void Window::add(const Now& now, std::size_t lasted) {
  const auto step = std::clamp<std::size_t>(lasted, 1, seconds);
  second_ += step;
  // The places of this second and of those that are missing hold numbers of 15 minutes ago.
  for (auto& [key, row] : rows_) {
    for (std::size_t figure = 0; figure < figures(key.first).size(); ++figure)
      for (std::size_t back = 0; back < step; ++back)
        row.numbers[figure * seconds + (second_ - back) % seconds] = unknown;
  }
  std::erase_if(rows_, [&](const auto& one) { return second_ - one.second.put >= seconds; });
  // Rows that have a place come first, so that a new one takes that of none of them.
  for (const bool is_new : {false, true}) put_all(is_new, now);
}

void Window::put_all(bool is_new, const Now& now) {
  const auto number = [](auto value) { return static_cast<double>(value); };
  const auto& weir = now.weir;
  put(is_new, Rows::weir, "", Values<4>{weir.cpu, weir.memory_bytes, number(weir.connections), weir.loop_delay_p99});
  for (const auto& pool : now.pools) {
    put(is_new, Rows::pools, pool.name,
        Values<7>{pool.second_requests, pool.second_failed, pool.second_tokens_in, pool.second_tokens_out,
                  number(pool.in_flight), number(pool.waiting), pool.second_ttft});
  }
  for (const auto& one : now.replicas) {
    put(is_new, Rows::replicas, one.row,
        Values<9>{one.second_requests, one.second_failed, one.second_tokens_out, one.in_prefill, one.in_decode,
                  number(one.queued_prefill_tokens), one.kv_usage, one.second_ttft, one.second_tpot});
  }
  for (const auto& shadow : now.shadows)
    put(is_new, Rows::shadows, shadow.name,
        Values<3>{number(shadow.in_flight), shadow.second_sent, shadow.second_dropped});
}

void Window::put(bool is_new, Rows rows, const std::string& name, std::span<const std::optional<double>> values) {
  auto found = rows_.find({rows, name});
  if ((found == rows_.end()) != is_new) return;
  if (is_new) {
    if (rows_.size() >= most_rows && !make_place()) return;
    found = rows_.emplace(Key(rows, name), Row{std::vector<float>(values.size() * seconds, unknown), second_, 0}).first;
  }
  auto& row = found->second;
  row.put = second_;
  for (std::size_t figure = 0; figure < values.size(); ++figure)
    if (values[figure]) row.numbers[figure * seconds + second_ % seconds] = static_cast<float>(*values[figure]);
}

/// Lets the row go that has been away for longest. Returns false if all rows are there.
bool Window::make_place() {
  const auto longest = std::ranges::min_element(rows_, {}, [](const auto& one) { return one.second.put; });
  if (longest->second.put == second_) return false;
  rows_.erase(longest);
  return true;
}

const Window::Row* Window::find(Rows rows, std::string_view name) const {
  const auto found = rows_.find({rows, std::string(name)});
  return found == rows_.end() ? nullptr : &found->second;
}

std::vector<std::string> Window::names(Rows rows) const {
  std::vector<std::string> names;
  for (const auto& [key, row] : rows_)
    if (key.first == rows) names.push_back(key.second);
  return names;
}

std::vector<float> Window::last(Rows rows, std::string_view name, std::size_t figure, std::size_t most) const {
  std::vector<float> numbers;
  const auto* const row = find(rows, name);
  if (row == nullptr) return numbers;
  const auto count = std::min<std::uint64_t>({most, seconds, second_ - row->began + 1});
  for (auto back = count; back-- > 0;)
    numbers.push_back(row->numbers[figure * seconds + (second_ - back) % seconds]);
  return numbers;
}

std::optional<double> Window::peak(Rows rows, std::string_view name, std::size_t figure) const {
  std::optional<double> peak;
  const auto* const row = find(rows, name);
  if (row == nullptr) return peak;
  for (const float number : std::span(row->numbers).subspan(figure * seconds, seconds))
    if (!std::isnan(number)) peak = std::max<double>(peak.value_or(number), number);
  return peak;
}

std::size_t Window::bytes() const {
  std::size_t bytes = 0;
  for (const auto& [key, row] : rows_) bytes += row.numbers.size() * sizeof(float);
  return bytes;
}

}  // namespace weir::proxy::live
