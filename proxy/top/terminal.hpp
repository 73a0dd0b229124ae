// The terminal of `weir top`: raw, on its alternate screen, and put back as it was on every way out, signals that end the
// program among them.
#pragma once

#include <string_view>

#include "proxy/net/unique_fd.hpp"
#include "proxy/top/screen.hpp"

namespace weir::proxy::top {

class Terminal {
 public:
  /// There is one at a time. Throws std::system_error if standard output is no terminal that can be read, too.
  Terminal();
  ~Terminal() { leave(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// The descriptor that keys come from. It is opened anew: it may not block, and the shell's may.
  int keys() const { return keys_.get(); }
  Size size() const;
  /// Blocks until the terminal has taken all bytes. Returns false if it is gone.
  bool write(std::string_view bytes) const;
  void enter();
  void leave();
  /// Gives the terminal back and stops the program, as Ctrl-Z does, until it is continued.
  void suspend();

 private:
  net::UniqueFd keys_;
};

}  // namespace weir::proxy::top
