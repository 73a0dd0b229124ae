#include "lab/load/target.hpp"

#include <gtest/gtest.h>

#include "lab/load/measure.hpp"

namespace weir::lab::load {
namespace {

TEST(Target, TheEndOfABaseUrlOfSdksIsDropped) {
  for (const char* url : {"http://h:8000/v1", "http://h:8000/v1/"}) {
    EXPECT_EQ(without_v1(url), "http://h:8000") << url;
  }
  EXPECT_EQ(without_v1("http://h/engine/v1"), "http://h/engine");
  for (const char* url : {"http://h:8000", "http://h:8000/", "http://h/v1/x", "http://h/xv1", "http://v1"}) {
    const std::string kept = without_v1(url);
    EXPECT_EQ(kept, url);
  }
}

TEST(Header, IsAFieldThatTheLoadDoesNotSetItself) {
  for (const char* field : {"x-team: search", "X-Team:", "cookie: a=b; c=d", "x: a:b", "authorization: Basic eA=="}) {
    EXPECT_EQ(header_problem(field), "") << field;
  }
  for (const char* field : {"", "x-team", ": x", "x team: y", "x\u00e9: y", "host: a", "Content-Length: 3",
                            "transfer-encoding: chunked", "X-Request-Id: 1", "x: a\r\nb: c", "x: a\nb"}) {
    EXPECT_NE(header_problem(field), "") << field;
  }
}

}  // namespace
}  // namespace weir::lab::load
