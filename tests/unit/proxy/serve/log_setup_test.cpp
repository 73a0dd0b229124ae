#include "proxy/serve/log_setup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <memory>
#include <sstream>

namespace weir::proxy::serve {
namespace {

using testing::EndsWith;
using testing::MatchesRegex;

const std::string time_with_zone = "[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\\.[0-9]+[+-][0-9]+:[0-9]+";

std::string logged(config::LogFormat format, spdlog::level::level_enum level, const std::string& message) {
  std::ostringstream out;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(out);
  spdlog::logger logger("test", sink);
  logger.set_formatter(log_formatter(format));
  logger.set_level(spdlog::level::trace);
  logger.log(level, message);
  return out.str();
}

TEST(LogFormatter, TextHasTimeZoneAndLevel) {
  EXPECT_THAT(logged(config::LogFormat::text, spdlog::level::warn, "it is \"so\""),
              MatchesRegex("\\[" + time_with_zone + "\\] \\[warning\\] it is \"so\"\n"));
}

TEST(LogFormatter, JsonIsOneObjectALineWhateverTheMessage) {
  const std::pair<std::string, std::string> cases[]{
      {"serving", R"("serving")"},
      {"a \"quote\" and \\", R"("a \"quote\" and \\")"},
      {"two\nlines\tand \x01", R"("two\nlines\tand \u0001")"},
      {"%v %l {} \xc3\xa9", "\"%v %l {} \xc3\xa9\""},
      {"broken \xff", "\"broken \xef\xbf\xbd\""},
      {"", R"("")"},
  };
  for (const auto& [message, json] : cases) {
    const auto line = logged(config::LogFormat::json, spdlog::level::info, message);
    EXPECT_THAT(line, EndsWith("\",\"level\":\"info\",\"message\":" + json + "}\n"));
    EXPECT_THAT(line.substr(0, line.find(",\"level")), MatchesRegex("\\{\"time\":\"" + time_with_zone + "\""));
  }
}

}  // namespace
}  // namespace weir::proxy::serve
