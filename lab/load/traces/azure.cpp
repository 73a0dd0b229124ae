#include "lab/load/traces/azure.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>

namespace weir::lab::load::traces {
namespace {

/// Takes a number from the front of `text`, and `after` behind it ('\0' means that the text must end there).
template <class Number>
bool take(std::string_view& text, Number& number, char after) {
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (after == '\0') return text.empty();
  if (text.empty() || text.front() != after) return false;
  text.remove_prefix(1);
  return true;
}

struct Line {
  std::chrono::nanoseconds at{};  ///< It is the time since 1970.
  TraceEntry entry;
};

/// Reads a line such as "2023-11-16 18:17:03.9799600,4808,10".
std::optional<Line> read_line(std::string_view text) {
  int year = 0;
  unsigned month = 0, day = 0;
  int hour = 0, minute = 0;
  double second = 0;
  Line line;
  if (!take(text, year, '-') || !take(text, month, '-') || !take(text, day, ' ')) return std::nullopt;
  if (!take(text, hour, ':') || !take(text, minute, ':') || !take(text, second, ',')) return std::nullopt;
  if (!take(text, line.entry.prompt_tokens, ',') || !take(text, line.entry.output_tokens, '\0')) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  // Nanoseconds since 1970 hold the years up to 2262.
  if (!date.ok() || year < 1970 || year > 2200 || hour < 0 || hour > 23 || minute < 0 || minute > 59) {
    return std::nullopt;
  }
  if (!(second >= 0 && second < 61)) return std::nullopt;
  if (static_cast<double>(std::max(line.entry.prompt_tokens, line.entry.output_tokens)) > most_tokens) {
    return std::nullopt;
  }
  line.at = std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(hour) + std::chrono::minutes(minute) +
            std::chrono::nanoseconds(static_cast<std::int64_t>(second * 1e9 + 0.5));
  line.entry.prompt_tokens = std::max<std::uint64_t>(1, line.entry.prompt_tokens);
  line.entry.output_tokens = std::max<std::uint64_t>(1, line.entry.output_tokens);
  return line;
}

}  // namespace

Trace read_azure(std::istream& in, std::size_t limit) {
  std::optional<std::chrono::nanoseconds> first;
  // The line of the columns has been read, and stands here as an empty one.
  return read_lines(in, "", limit, true, [&first](std::string_view text) -> Entry {
    auto line = read_line(text);
    if (!line) {
      return "expected YYYY-MM-DD HH:MM:SS.fraction,prompt tokens,output tokens, got \"" + std::string(text) + "\"";
    }
    if (!first) first = line->at;
    line->entry.at = std::chrono::duration<double>(line->at - *first).count();
    return std::move(line->entry);
  });
}

}  // namespace weir::lab::load::traces
