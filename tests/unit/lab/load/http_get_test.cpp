#include "lab/load/http_get.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "lab/load/target.hpp"

namespace weir::lab::load {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Target, IsTakenFromAUrl) {
  const struct {
    std::string url, host, port, prefix, authority;
  } cases[] = {
      {"http://gpu0", "gpu0", "80", "", "gpu0"},
      {"http://gpu0:8001/", "gpu0", "8001", "", "gpu0:8001"},
      {"http://127.0.0.1:8001/a/b/", "127.0.0.1", "8001", "/a/b", "127.0.0.1:8001"},
      {"http://[::1]:8001", "::1", "8001", "", "[::1]:8001"},
  };
  for (const auto& c : cases) {
    const Target t = target_of(c.url);
    EXPECT_EQ(t.host, c.host) << c.url;
    EXPECT_EQ(t.port, c.port) << c.url;
    EXPECT_EQ(t.prefix, c.prefix) << c.url;
    EXPECT_EQ(t.authority, c.authority) << c.url;
  }
  EXPECT_FALSE(target_of("http://gpu0").tls);
  EXPECT_TRUE(target_of("https://gpu0").tls);
  EXPECT_EQ(target_of("https://gpu0").port, "443");
  EXPECT_EQ(target_of("https://gpu0:8443/a").authority, "gpu0:8443");
  for (const char* url :
       {"", "gpu0:8001", "ftp://gpu0", "http://", "http://gpu 0", "http://gpu0:65536", "http://gpu0:73537",
        "http://gpu0:0", "http://gpu0:", "http://gpu0:x", "http://gpu0:-1", "http://gpu0:8001x",
        "http://a@gpu0", "http://a:b@gpu0"}) {
    EXPECT_THROW(target_of(url), std::invalid_argument) << url;
  }
}

TEST(ModelIds, AreThoseListed) {
  EXPECT_THAT(model_ids(R"({"object":"list","data":[{"id":"a/b"},{"id":""},{"id":5},7,{"id":"c"}]})"),
              ElementsAre("a/b", "c"));
  for (const char* body : {"", "[]", "nonsense", R"({"data":{}})", R"({"data":[]})"}) {
    EXPECT_THAT(model_ids(body), IsEmpty()) << body;
  }
}

}  // namespace
}  // namespace weir::lab::load
