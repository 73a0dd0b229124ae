// Sets up weir's own log: spdlog on standard error, in the form that [log] sets.
#pragma once

#include <spdlog/formatter.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/settings.hpp"
#include "metrics/record/request_log.hpp"

namespace weir::proxy::serve {

/// The text form is `[2026-11-21T07:00:00.123+00:00] [info] serving on 127.0.0.1:8080`. The json form is one object a
/// line with time, level and message, whatever the message holds.
std::unique_ptr<spdlog::formatter> log_formatter(config::LogFormat format);

/// Makes the default logger. It is to be called once, before threads begin.
void set_up_log(const config::Log& log);

/// Gives that logger another form and level, on any thread.
void change_log(const config::Log& log);

/// Returns log.instance, or the host's name where that is not set.
std::string instance_of(const config::Log& log);

/// Calls `adopt`, and then lets the request log and weir's own follow the settings. Returns why that cannot be; then,
/// and if `adopt` throws, both logs are as they were. A request log whose path is the same is opened anew, since its
/// file may have been moved; if only that fails, the open file stays, for a key has to be revocable whatever has become
/// of the log's folder.
std::vector<std::string> adopt_with_logs(metrics::record::RequestLog& requests, const config::Log& before,
                                         const config::Log& after, const std::function<void()>& adopt);

}  // namespace weir::proxy::serve
