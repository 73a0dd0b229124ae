#include "proxy/top/terminal.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

namespace weir::proxy::top {
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

}  // namespace weir::proxy::top
