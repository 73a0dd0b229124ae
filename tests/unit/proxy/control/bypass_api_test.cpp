#include "proxy/control/bypass_api.hpp"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

namespace weir::proxy::control {
namespace {

TEST(BypassApi, SwitchesItAndSaysItOnceLoudly) {
  std::ostringstream said;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(said)));
  std::atomic<bool> bypass{false};
  EXPECT_EQ(bypass_answer(bypass, true).body, "{\"bypass\":true,\"changed\":true}\n");
  EXPECT_TRUE(bypass);
  EXPECT_NE(said.str().find("warning"), std::string::npos);
  EXPECT_NE(said.str().find("BYPASS is on"), std::string::npos);
  said.str("");
  EXPECT_EQ(bypass_answer(bypass, true).body, "{\"bypass\":true,\"changed\":false}\n");
  EXPECT_EQ(said.str(), "");
  EXPECT_EQ(bypass_answer(bypass, false).body, "{\"bypass\":false,\"changed\":true}\n");
  EXPECT_FALSE(bypass);
  EXPECT_NE(said.str().find("bypass is off"), std::string::npos);
  spdlog::set_default_logger(before);
}

}  // namespace
}  // namespace weir::proxy::control
