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
  EXPECT_EQ(bypass_answer(bypass, "/api/bypass/on").body, "{\"bypass\":true,\"changed\":true}\n");
  EXPECT_TRUE(bypass);
  EXPECT_NE(said.str().find("warning"), std::string::npos);
  EXPECT_NE(said.str().find("BYPASS is on"), std::string::npos);
  said.str("");
  EXPECT_EQ(bypass_answer(bypass, "/api/bypass/on").body, "{\"bypass\":true,\"changed\":false}\n");
  EXPECT_EQ(said.str(), "");
  EXPECT_EQ(bypass_answer(bypass, "/api/bypass/off").body, "{\"bypass\":false,\"changed\":true}\n");
  EXPECT_FALSE(bypass);
  EXPECT_NE(said.str().find("bypass is off"), std::string::npos);
  spdlog::set_default_logger(before);
}

TEST(BypassApi, HasTwoPaths) {
  EXPECT_TRUE(is_bypass_path("/api/bypass/on"));
  EXPECT_TRUE(is_bypass_path("/api/bypass/off"));
  for (const auto* other : {"/api/bypass", "/api/bypass/", "/api/bypass/ON", "/api/bypass/on/", "/api/shadow/x/on"})
    EXPECT_FALSE(is_bypass_path(other)) << other;
}

}  // namespace
}  // namespace weir::proxy::control
