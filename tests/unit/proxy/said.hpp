// Reads weir's own log.
#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>

namespace weir::proxy {

/// Weir's own log, while this lives. A ScriptedProxy that begins later silences it.
class Said {
 public:
  Said() {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
  }
  ~Said() { spdlog::set_default_logger(before_); }
  Said(const Said&) = delete;
  Said& operator=(const Said&) = delete;
  /// Returns what has been said since the last call.
  std::string take() {
    auto said = text_.str();
    text_.str("");
    return said;
  }

 private:
  std::ostringstream text_;
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

}  // namespace weir::proxy
