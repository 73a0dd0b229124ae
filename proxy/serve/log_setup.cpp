#include "proxy/serve/log_setup.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "metrics/wire/json/writer.hpp"
#include "proxy/events/events.hpp"
#include "proxy/serve/machine.hpp"

namespace weir::proxy::serve {
namespace {

/// Writes the message as a JSON string, quotes included.
class JsonMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    std::string text;
    metrics::wire::append_json_string(text, std::string_view(message.payload.data(), message.payload.size()));
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<JsonMessage>(); }
};

/// Both count levels from trace on.
constexpr spdlog::level::level_enum level_of(config::LogLevel level) {
  return static_cast<spdlog::level::level_enum>(level);
}
static_assert(level_of(config::LogLevel::trace) == spdlog::level::trace);
static_assert(level_of(config::LogLevel::info) == spdlog::level::info);
static_assert(level_of(config::LogLevel::error) == spdlog::level::err);

}  // namespace

std::unique_ptr<spdlog::formatter> log_formatter(config::LogFormat format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  if (format == config::LogFormat::json) {
    formatter->add_flag<JsonMessage>('j').set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":%j})");
  } else {
    formatter->set_pattern("[%Y-%m-%dT%H:%M:%S.%e%z] [%^%l%$] %v");
  }
  return formatter;
}

void set_up_log(const config::Log& log) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("weir"));
  change_log(log);
}

void change_log(const config::Log& log) {
  spdlog::set_formatter(log_formatter(log.format));
  spdlog::set_level(level_of(log.level));
}

std::string instance_of(const config::Log& log) { return log.instance.empty() ? host_name() : log.instance; }

std::vector<std::string> adopt_with_logs(metrics::record::RequestLog& requests, const config::Log& before,
                                         const config::Log& after, const std::function<void()>& adopt) {
  metrics::record::RequestLog::Opened opened(after.requests);
  if (opened.problem && after.requests != before.requests) return {"log.requests: " + *opened.problem};
  const auto instance = instance_of(after);
  adopt();
  // Nothing that fails from here on undoes what was adopted.
  try {
    if (const auto problem = requests.change(std::move(opened), instance))
      events::error(events::What::reload, "", "reload: {}; its lines go on into the file that is open", *problem);
    change_log(after);
  } catch (const std::exception& error) {
    events::error(events::What::reload, "", "reload: the logs do not follow: {}", error.what());
  }
  return {};
}

}  // namespace weir::proxy::serve
