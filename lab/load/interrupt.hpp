// Notes SIGINT and SIGTERM, so that a load, or several one after another, end early and still say what they measured.
//
// While one lives, the first signal is noted and the next one ends the program, as if there were none. A program has at
// most one at a time.
#pragma once

#include <csignal>

namespace weir::lab::load {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool seen() const;

 private:
  struct sigaction before_int_ {};
  struct sigaction before_term_ {};
};

}  // namespace weir::lab::load
