// Lets a thread of the control thread's yield to the loops where processors are short.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

namespace weir::proxy::control {

/// Makes the calling thread as nice as this, and not the process: on Linux a thread has a niceness of its own.
inline void be_nice(int niceness) { ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), niceness); }

}  // namespace weir::proxy::control
