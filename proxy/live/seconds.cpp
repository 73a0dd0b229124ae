#include "proxy/live/seconds.hpp"

#include <algorithm>
#include <utility>

namespace weir::proxy::live {

std::size_t Seconds::place(std::size_t column, std::size_t back) const {
  const auto deep = std::min(column, drawn_), flat = column - deep;
  return deep * (presence_.wide ? window : minute) + flat * minute + (second_ - back) % depth(column);
}

void Seconds::step(std::size_t passed) {
  if (passed == 0 || (second_ == 0 && !presence_.put)) return;  // A row begins with its first put().
  if (!std::exchange(presence_.put, false)) {                   // What it did meanwhile belongs to no second.
    look_anew();
    std::ranges::fill(now_, 0.0F);
  }
  presence_.absent += passed;
  second_ += passed;
  known_ += passed;
  for (std::size_t column = 0; column < now_.size(); ++column)
    for (std::size_t back = 0; back < std::min({passed, depth(column), second_ + 1}); ++back)
      numbers_[place(column, back)] = unknown;
}

void Seconds::put() {
  const bool begins = !std::exchange(presence_.put, true);
  presence_.absent = 0;
  for (std::size_t column = 0; column < now_.size(); ++column) {
    if (begins) at(column) = 0;
    if (now_[column] != 0) at(column) += std::exchange(now_[column], 0.0F);
  }
}

void Seconds::follow(std::size_t column, double counter, double unit) {
  const double before = std::exchange(before_[column], counter);
  if (counter > before) at(column) += static_cast<float>((counter - before) / unit);
}

void Seconds::look_anew() { std::ranges::fill(before_, unknown); }

void Seconds::begin_anew() {
  known_ = 1;
  presence_.put = false;
  look_anew();
  std::ranges::fill(now_, 0.0F);
}

void Seconds::clear(std::size_t column) {
  for (std::size_t back = 0; back < std::min(depth(column), second_ + 1); ++back)
    numbers_[place(column, back)] = back == 0 ? 0 : unknown;
}

std::optional<double> Seconds::last(std::size_t column) const {
  const float number = numbers_[place(column, 0)];
  return std::isnan(number) ? std::nullopt : std::optional<double>(number);
}

double Seconds::sum(std::size_t column, std::size_t seconds) const {
  double sum = 0;
  for (std::size_t back = 0; back < std::min({seconds, minute, known_}); ++back)
    if (const float number = numbers_[place(column, back)]; !std::isnan(number)) sum += number;
  return sum;
}

std::vector<float> Seconds::numbers(std::size_t column, std::size_t most) const {
  std::vector<float> all;
  for (auto back = std::min({most, depth(column), second_ + 1}); back-- > 0;)
    all.push_back(numbers_[place(column, back)]);
  return all;
}

std::optional<double> Seconds::peak(std::size_t column) const {
  std::optional<double> peak;
  for (const float number : numbers(column, window))
    if (!std::isnan(number)) peak = std::max<double>(peak.value_or(number), number);
  return peak;
}

void Seconds::set_wide(bool wide) {
  if (wide == presence_.wide) return;
  std::vector<std::vector<float>> kept;
  for (std::size_t column = 0; column < now_.size(); ++column) kept.push_back(numbers(column, minute));
  presence_.wide = wide;
  numbers_.assign(drawn_ * (wide ? window : minute) + (now_.size() - drawn_) * minute, unknown);
  numbers_.shrink_to_fit();
  for (std::size_t column = 0; column < kept.size(); ++column)
    for (std::size_t back = 0; back < kept[column].size(); ++back)
      numbers_[place(column, back)] = kept[column][kept[column].size() - 1 - back];
}

}  // namespace weir::proxy::live
