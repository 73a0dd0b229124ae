#include "metrics/compare/samples/rfc3339.hpp"

#include <algorithm>
#include <chrono>

#include "metrics/text.hpp"

namespace weir::metrics::compare::samples {
namespace {

bool digit(char letter) { return letter >= '0' && letter <= '9'; }

/// Takes the parts of a moment off the front of a text.
class Parts {
 public:
  explicit Parts(std::string_view text) : rest_(text) {}

  /// Returns a number of exactly so many digits, at most `most`; on anything else the text is wrong from then on.
  int number(std::size_t digits, int most) {
    int value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      if (i >= rest_.size() || !digit(rest_[i])) return refuse();
      value = value * 10 + (rest_[i] - '0');
    }
    rest_.remove_prefix(digits);
    return value <= most ? value : refuse();
  }
  /// Takes one of the letters, and returns it.
  char one_of(std::string_view letters) {
    if (rest_.empty() || letters.find(rest_.front()) == std::string_view::npos) {
      refuse();
      return 0;
    }
    const char taken = rest_.front();
    rest_.remove_prefix(1);
    return taken;
  }
  /// Takes a fraction of a second, if there is one, and returns it in microseconds.
  std::int64_t fraction() {
    if (!rest_.starts_with('.')) return 0;
    rest_.remove_prefix(1);
    std::int64_t us = 0, unit = 100'000;
    if (rest_.empty() || !digit(rest_.front())) refuse();
    for (; !rest_.empty() && digit(rest_.front()); rest_.remove_prefix(1), unit /= 10)
      us += (rest_.front() - '0') * unit;
    return us;
  }
  bool right() const { return right_ && rest_.empty(); }

 private:
  int refuse() {
    right_ = false;
    return 0;
  }
  std::string_view rest_;
  bool right_ = true;
};

}  // namespace

std::optional<std::int64_t> parse_rfc3339(std::string_view text) {
  using namespace std::chrono;
  Parts parts(text);
  const int y = parts.number(4, 9999);
  parts.one_of("-");
  const int m = parts.number(2, 12);
  parts.one_of("-");
  const int d = parts.number(2, 31);
  parts.one_of("Tt ");
  const int hour = parts.number(2, 23);
  parts.one_of(":");
  const int minute = parts.number(2, 59);
  parts.one_of(":");
  const int second = std::min(parts.number(2, 60), 59);
  const std::int64_t us = parts.fraction();
  int offset = 0;
  if (const char zone = parts.one_of("Zz+-"); zone == '+' || zone == '-') {
    const int hours_east = parts.number(2, 23);
    parts.one_of(":");
    offset = (hours_east * 60 + parts.number(2, 59)) * (zone == '+' ? 60 : -60);
  }
  const year_month_day date{year{y}, month{static_cast<unsigned>(m)}, day{static_cast<unsigned>(d)}};
  if (!parts.right() || !date.ok()) return std::nullopt;
  const auto time =
      sys_days{date} + hours{hour} + minutes{minute} + std::chrono::seconds{second} - std::chrono::seconds{offset};
  return duration_cast<microseconds>(time.time_since_epoch()).count() + us;
}

std::string format_rfc3339(std::int64_t us) {
  return timestamp(std::chrono::sys_time<std::chrono::microseconds>{std::chrono::microseconds{us}}, 0);
}

}  // namespace weir::metrics::compare::samples
