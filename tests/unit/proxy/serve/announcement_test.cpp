#include "proxy/serve/announcement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::proxy::serve {
namespace {

config::Settings settings() {
  config::Settings settings;
  config::Pool chat;
  chat.name = "chat";
  for (const std::string name : {"gpu0", "gpu1"}) {
    config::Replica replica;
    replica.name = name;
    replica.url = {"10.0.0.1", 8000, "/" + name, "10.0.0.1:8000"};
    replica.config = "vllm-fp16";
    chat.replicas.push_back(replica);
  }
  config::Pool small = chat;
  small.name = "small";
  small.models = {"qwen", "phi"};
  small.policy = config::Policy::round_robin;
  small.replicas.resize(1);
  settings.pools = {chat, small};
  return settings;
}

TEST(Announcement, NamesPoolsAndReplicas) {
  EXPECT_THAT(
      start_lines(settings(), "1.2.3", 4),
      testing::ElementsAre("weir 1.2.3 starts with 4 loops", "pool 'chat': any model, least_queued_tokens, 2 replicas",
                           "replica 'gpu0' of pool 'chat': http://10.0.0.1:8000/gpu0, config 'vllm-fp16'",
                           "replica 'gpu1' of pool 'chat': http://10.0.0.1:8000/gpu1, config 'vllm-fp16'",
                           "pool 'small': models qwen, phi, round_robin, 1 replica",
                           "replica 'gpu0' of pool 'small': http://10.0.0.1:8000/gpu0, config 'vllm-fp16'",
                           "request log: requests.jsonl"));
}

TEST(Announcement, SaysWhichShadowCanCarryAVerdict) {
  auto some = settings();
  config::Shadow twin;
  twin.name = "fp8";
  twin.of = "chat";
  twin.twin = "gpu0";
  auto share = twin;
  share.name = "share";
  share.twin.clear();
  share.sample = 0.1;
  some.shadows = {twin, share};
  EXPECT_THAT(shadow_lines(some),
              testing::ElementsAre("shadow 'fp8' of pool 'chat': a twin of 'gpu0'; its latencies can carry a verdict, "
                                   "against 'gpu0'",
                                   "shadow 'share' of pool 'chat': a sample of 10 %; its load differs from its "
                                   "primaries', so its latencies carry no verdict (only a twin's do)"));
  auto same = twin;
  same.name = "same";
  same.control = true;
  auto of_another = same;
  of_another.name = "other";
  of_another.twin = "gpu1";
  some.shadows = {twin, of_another};
  EXPECT_THAT(shadow_lines(some).front(), testing::EndsWith("against 'gpu0'"));
  some.shadows = {twin, same};
  EXPECT_THAT(shadow_lines(some),
              testing::ElementsAre(testing::EndsWith("against the control 'same'"),
                                   "shadow 'same' of pool 'chat': the control of the twins of 'gpu0'"));
}

TEST(Announcement, NamesListeners) {
  auto some = settings();
  some.server.listen = {{"127.0.0.1", 8080}, {"::1", 80}};
  EXPECT_THAT(
      listening_lines(some),
      testing::ElementsAre("serving on http://127.0.0.1:8080", "serving on http://[::1]:80",
                           "metrics on http://127.0.0.1:9090/metrics", "admin on http://127.0.0.1:9091/api/live"));
  auto by_path = some;
  by_path.server.listen.front() = {"", 0, "/run/weir/weir.sock"};
  by_path.admin.listen = config::ListenAddress{"", 0, "/run/weir/admin.sock"};
  EXPECT_EQ(listening_lines(by_path).front(), "serving on unix:/run/weir/weir.sock");
  EXPECT_EQ(listening_lines(by_path).back(), "admin on unix:/run/weir/admin.sock");
  some.metrics.listen.reset();
  EXPECT_THAT(listening_lines(some),
              testing::ElementsAre(testing::StartsWith("serving"), testing::StartsWith("serving"),
                                   testing::StartsWith("admin")));
  some.admin.listen.reset();
  EXPECT_EQ(listening_lines(some).size(), 2U);
}

}  // namespace
}  // namespace weir::proxy::serve
