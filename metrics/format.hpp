// printf into a string, whose pattern the compiler checks. metrics/text.hpp has what knows its values' types.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace weir::metrics {

[[gnu::format(printf, 1, 2)]] inline std::string format(const char* pattern, ...) {
  std::va_list values, again;
  va_start(values, pattern);
  va_copy(again, values);
  const int length = std::vsnprintf(nullptr, 0, pattern, values);
  std::string text(length < 0 ? 0 : static_cast<std::size_t>(length), '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  va_end(values);
  return text;
}

}  // namespace weir::metrics
