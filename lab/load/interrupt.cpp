#include "lab/load/interrupt.hpp"

namespace weir::lab::load {
namespace {

volatile std::sig_atomic_t noted = 0;

extern "C" void note(int) { noted = 1; }

}  // namespace

Interrupt::Interrupt() {
  noted = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &before_int_);
  ::sigaction(SIGTERM, &action, &before_term_);
}

Interrupt::~Interrupt() {
  ::sigaction(SIGINT, &before_int_, nullptr);
  ::sigaction(SIGTERM, &before_term_, nullptr);
}

bool Interrupt::seen() const { return noted != 0; }

}  // namespace weir::lab::load
