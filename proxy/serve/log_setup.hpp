// Sets up weir's own log: spdlog on standard error, in the form that [log] sets.
#pragma once

#include <spdlog/formatter.h>

#include <memory>

#include "config/settings.hpp"

namespace weir::proxy::serve {

/// The text form is `[2026-11-21T07:00:00.123+00:00] [info] serving on 127.0.0.1:8080`. The json form is one object a
/// line with time, level and message, whatever the message holds.
std::unique_ptr<spdlog::formatter> log_formatter(config::LogFormat format);

/// Makes the default logger. It is to be called once, before threads begin.
void set_up_log(const config::Log& log);

/// Gives that logger another form and level, on any thread.
void change_log(const config::Log& log);

}  // namespace weir::proxy::serve
