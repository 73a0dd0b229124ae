#include "proxy/top/screen.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "config/controls.hpp"
#include "metrics/text.hpp"

namespace weir::proxy::top {
namespace {

std::string sequence_of(Style style, bool colours) {
  std::string out = "\x1b[0";
  if (style.bold) out += ";1";
  if (style.reversed) out += ";7";
  if (colours) {
    switch (style.colour) {
      case Colour::plain:
        break;
      case Colour::good:
        out += ";38;5;71";
        break;
      case Colour::warn:
        out += ";38;5;178";
        break;
      case Colour::bad:
        out += ";38;5;203";
        break;
      case Colour::faded:
        out += ";38;5;245";
        break;
    }
  }
  return out + 'm';
}

void write_cells(std::string& out, const std::vector<Cell>& cells, std::size_t begin, std::size_t end, bool colours) {
  Style style;
  for (std::size_t i = begin; i < end; ++i) {
    if (cells[i].style != style) out += sequence_of(style = cells[i].style, colours);
    out += cells[i].letter;
  }
  if (style != Style{}) out += "\x1b[0m";
}

std::size_t length_of(const std::vector<Cell>& cells) {
  std::size_t length = cells.size();
  while (length > 0 && cells[length - 1] == Cell{}) --length;
  return length;
}

}  // namespace

std::size_t printed_columns(const char* environment, std::size_t terminal) {
  constexpr std::size_t usual = 100, most = 1000;
  const std::string_view text(environment == nullptr ? "" : environment);
  std::size_t wanted = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), wanted);
  if (error == std::errc() && end == text.data() + text.size() && wanted >= 1 && wanted <= most) return wanted;
  return terminal > 0 ? terminal : usual;
}

std::size_t Line::put(std::size_t column, std::string_view text, Style style, std::size_t width) {
  if (column >= cells_.size()) return cells_.size();
  const auto room = std::min(width, cells_.size() - column);
  auto shown = config::printable_ascii(text);
  if (shown.size() > room) {
    shown.resize(room);
    if (room > 0) shown.back() = '~';
  }
  for (const char letter : shown) cells_[column++] = {letter, style};
  return column;
}

void Line::set(Style style) {
  for (auto& cell : cells_) cell.style = style;
}

std::string Line::text() const {
  std::string text;
  for (const auto& cell : cells_) text += cell.letter;
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string text_of(const Screen& screen, bool colours) {
  std::string out;
  for (const auto& line : screen) {
    if (colours)
      write_cells(out, line.cells(), 0, length_of(line.cells()), true);
    else
      out += line.text();
    out += '\n';
  }
  return out;
}

std::string difference(const Screen& before, const Screen& now, bool colours) {
  std::string out;
  const bool anew = before.size() != now.size() || before.empty() || before[0].cells().size() != now[0].cells().size();
  if (anew) out = "\x1b[0m\x1b[2J";
  for (std::size_t i = 0; i < now.size(); ++i) {
    const auto& cells = now[i].cells();
    std::size_t begin = 0, end = cells.size();
    if (anew) {
      end = length_of(cells);
    } else {
      const auto& old = before[i].cells();
      while (begin < end && cells[begin] == old[begin]) ++begin;
      while (end > begin && cells[end - 1] == old[end - 1]) --end;
    }
    if (begin == end) continue;
    out += "\x1b[" + std::to_string(i + 1) + ';' + std::to_string(begin + 1) + 'H';
    write_cells(out, cells, begin, end, colours);
  }
  return out;
}

namespace {

/// The alternate screen, no cursor, no wrapping at the end of a line.
constexpr std::string_view enters = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
constexpr std::string_view leaves = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr std::array fatal_signals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// A signal's handler reads these.
termios before{};
volatile std::sig_atomic_t is_entered = 0;

void put_back() {
  if (is_entered == 0) return;
  is_entered = 0;
  // Nothing is to be done about a terminal that is gone.
  [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, leaves.data(), leaves.size());
  ::tcsetattr(STDOUT_FILENO, TCSADRAIN, &before);
}

void on_fatal(int signal) {
  put_back();
  ::raise(signal);  // Its handler is the system's again.
}

}  // namespace

Terminal::Terminal() : keys_(::open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) {
  if (!keys_ || ::tcgetattr(STDOUT_FILENO, &before) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot use this terminal, so try --once");
  for (const int signal : fatal_signals) {
    struct sigaction action{};
    action.sa_handler = on_fatal;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(signal, &action, nullptr);
  }
  enter();
}

Size Terminal::size() const {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  constexpr unsigned short most = 1000;
  return {std::min(size.ws_col, most), std::min(size.ws_row, most)};
}

bool Terminal::write(std::string_view bytes) const {
  while (!bytes.empty()) {
    const auto size = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (size < 0 && errno != EINTR) return false;
    if (size > 0) bytes.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

void Terminal::enter() {
  auto raw = before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  raw.c_cc[VSUSP] = raw.c_cc[VQUIT] = _POSIX_VDISABLE;  // Ctrl-C ends the program; Ctrl-Z is a key.
  ::tcsetattr(STDOUT_FILENO, TCSADRAIN, &raw);
  is_entered = 1;
  write(enters);
}

void Terminal::leave() { put_back(); }

void Terminal::suspend() {
  leave();
  ::raise(SIGTSTP);
  enter();
}

namespace {

bool is_whole(double value) { return std::floor(value) == value; }

std::string digits(double value) {
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (size >= 100) return fmt::format("{:.0f}", value);
  if (size >= 10) return fmt::format("{:.{}f}", value, is_whole(value) ? 0 : 1);
  return fmt::format("{:.{}f}", value, is_whole(value) ? 0 : size >= 1 ? 1 : 2);
}

/// Returns the seconds since 1970 of "2026-11-26T15:38:03.123Z".
Number seconds_of(std::string_view time) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0;
  double second = 0;
  const auto read =
      std::sscanf(std::string(time).c_str(), "%4d-%2d-%2dT%2d:%2d:%lf", &year, &month, &day, &hour, &minute, &second);
  if (read != 6) return {};
  using namespace std::chrono;
  const year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                            std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return {};
  return 86'400 * static_cast<double>(sys_days(date).time_since_epoch().count()) + 3600 * hour + 60 * minute + second;
}

}  // namespace

std::string short_number(Number value) {
  if (!value || !std::isfinite(*value)) return std::string(unknown);
  double scaled = *value;
  const char* unit = "";
  for (const char* next : {"k", "M", "G"}) {
    if (std::abs(scaled) < 999.5) break;
    scaled /= 1000;
    unit = next;
  }
  if (*unit == 0) return digits(*value);
  return fmt::format("{:.{}f}{}", scaled, std::abs(scaled) >= 9.95 ? 0 : 1, unit);
}

std::string latency(Number seconds) {
  if (!seconds || !std::isfinite(*seconds)) return std::string(unknown);
  if (*seconds == 0) return "0ms";
  if (*seconds < 0.00995) return fmt::format("{:.2f}ms", 1000 * *seconds);
  if (*seconds < 0.9995) return fmt::format("{:.0f}ms", 1000 * *seconds);
  if (*seconds < 9.995) return fmt::format("{:.2f}s", *seconds);
  return *seconds < 99.95 ? fmt::format("{:.1f}s", *seconds) : age(seconds);
}

std::string age(Number seconds) {
  if (!seconds || !std::isfinite(*seconds)) return std::string(unknown);
  const auto whole = static_cast<long long>(std::max(0.0, *seconds));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  if (whole < 86'400) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}d{:02}h", whole / 86'400, whole / 3600 % 24);
}

std::string percent(Number share) {
  if (!share || !std::isfinite(*share)) return std::string(unknown);
  const double value = 100 * *share;
  if (value == 0 || value == 100) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f}", value, value < 9.95 || value > 95 ? (value > 99.9 ? 2 : 1) : 0);
}

std::string bytes(Number count) {
  if (!count || !std::isfinite(*count)) return std::string(unknown);
  if (*count == 0) return "0";
  const double mebi = *count / 1'048'576;
  if (mebi < 1) return fmt::format("{:.{}f}KiB", *count / 1024, *count < 10'240 ? 1 : 0);
  return mebi < 1024 ? fmt::format("{:.{}f}MiB", mebi, mebi < 10 ? 1 : 0) : fmt::format("{:.1f}GiB", mebi / 1024);
}

Number between(std::string_view from, std::string_view to) {
  const auto begin = seconds_of(from), end = seconds_of(to);
  if (!begin || !end) return {};
  return std::max(0.0, *end - *begin);
}

std::string clock(std::string_view time) {
  return seconds_of(time) && time.size() >= 19 ? std::string(time.substr(11, 8)) : std::string(unknown);
}

std::string words(std::string_view name) {
  std::string text(name);
  std::ranges::replace(text, '_', ' ');
  return text;
}

void Writer::add(std::vector<Line>& lines, std::string_view text, Style style, std::size_t indent) const {
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

}  // namespace weir::proxy::top
