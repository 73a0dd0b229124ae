#include "proxy/http/cors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace weir::proxy::http {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Origins = std::vector<std::string>;

const Origins one{"https://app.example"}, any{"*"};

RequestHead head_of(const std::string& bytes) {
  static std::vector<std::unique_ptr<std::string>> kept;
  kept.push_back(std::make_unique<std::string>(bytes));
  const auto head = parse_request_head(*kept.back());
  EXPECT_TRUE(head) << bytes;
  return *head;
}
RequestHead options(const std::string& fields) {
  return head_of("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n");
}
const std::string asks =
    "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n"
    "Access-Control-Request-Headers: authorization, content-type\r\n";

TEST(Cors, NamesTheOriginThatMayAskAndNoOther) {
  const std::string vary = "Vary: Origin\r\n";
  EXPECT_EQ(
      cors_fields(one, "https://app.example"),
      "Access-Control-Allow-Origin: https://app.example\r\nAccess-Control-Expose-Headers: x-request-id, x-weir-id, "
      "x-weir-replica, Retry-After, retry-after-ms\r\n" +
          vary);
  for (const auto* other : {"", "null", "https://app.example.evil", "https://app.exampl", "http://app.example",
                            "https://app.example:8443", "*"})
    EXPECT_EQ(cors_fields(one, other), vary) << other << ": an answer to another may not be kept for this one";
  EXPECT_EQ(cors_fields(Origins{"https://a.example", "https://b.example"}, "https://b.example").find("https://a"),
            std::string::npos);
}

TEST(Cors, OfAnyOriginDoesNotDiffer) {
  EXPECT_THAT(cors_fields(any, "https://x.example"), HasSubstr("Access-Control-Allow-Origin: *\r\n"));
  EXPECT_THAT(cors_fields(any, "https://x.example"), Not(HasSubstr("Vary")));
  EXPECT_EQ(cors_fields(any, ""), "");
  EXPECT_EQ(cors_fields({}, "https://x.example"), "");
}

TEST(Preflight, IsKnownByItsFields) {
  EXPECT_TRUE(is_preflight(options(asks)));
  EXPECT_FALSE(is_preflight(options("Origin: https://app.example\r\n")));
  EXPECT_FALSE(is_preflight(options(asks + "Content-Length: 2\r\n"))) << "a browser sends no body with it";
  EXPECT_FALSE(is_preflight(options("Access-Control-Request-Method: POST\r\n")));
  EXPECT_FALSE(is_preflight(head_of("GET / HTTP/1.1\r\nHost: h\r\n" + asks + "\r\n")));
}

TEST(Preflight, GetsWhatItAsksFor) {
  std::string fields;
  const auto answer = preflight_answer(one, options(asks), fields);
  EXPECT_EQ(answer.status, 204u);
  EXPECT_FALSE(answer.error);
  EXPECT_EQ(fields,
            "Vary: Access-Control-Request-Method, Access-Control-Request-Headers\r\n"
            "Access-Control-Allow-Methods: POST\r\nAccess-Control-Allow-Headers: authorization, content-type\r\n"
            "Access-Control-Max-Age: 7200\r\n")
      << "a page sends its key itself, and needs no credentials; cookies are none of weir's";
  const auto text = own_answer(answer, {.cors = fields});
  EXPECT_THAT(text, testing::AllOf(testing::StartsWith("HTTP/1.1 204 No Content\r\n"), testing::EndsWith("\r\n\r\n"),
                                   Not(HasSubstr("Content-"))));
}

TEST(Preflight, OfAnotherOriginIsToldWhy) {
  std::string fields;
  const auto answer =
      preflight_answer(one, options("Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n"), fields);
  EXPECT_EQ(answer.status, 403u);
  ASSERT_TRUE(answer.error);
  EXPECT_THAT(answer.error->message, HasSubstr("server.cors_origins"));
  EXPECT_THAT(fields, Not(HasSubstr("Allow")));
}

TEST(Preflight, EchoesNothingThatIsNoList) {
  std::string fields;
  preflight_answer(any,
                   options("Origin: https://a.example\r\nAccess-Control-Request-Method: PO\"ST\r\n"
                           "Access-Control-Request-Headers: a;b=<c>\r\n"),
                   fields);
  EXPECT_THAT(fields, Not(HasSubstr("Access-Control-Allow")));
}

}  // namespace
}  // namespace weir::proxy::http
