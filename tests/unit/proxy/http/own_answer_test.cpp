#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <vector>

#include "proxy/http/own_answer.hpp"

namespace weir::proxy::http {
namespace {

using metrics::Api;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string hostile = "gone:\n\ndata: [DONE]\r\n\r\n\"}],\t\\ \x01 </script> \xc3\xa4";

TEST(ErrorBody, IsWhatOpenAiClientsExpectWhateverItQuotes) {
  for (const auto api : {Api::openai_chat, Api::openai_responses, Api::tgi_generate, Api::other}) {
    const auto parsed = boost::json::parse(error_body(api, 404, {"invalid_request_error", hostile, hostile}));
    const auto& error = parsed.at("error").as_object();
    EXPECT_EQ(std::string_view(error.at("message").as_string()), hostile);
    EXPECT_EQ(std::string_view(error.at("code").as_string()), hostile);
    EXPECT_EQ(error.at("type").as_string(), "invalid_request_error");
    EXPECT_TRUE(error.at("param").is_null());
  }
}

TEST(ErrorBody, OnAnthropicsRoutesIsWhatItsClientsExpect) {
  struct {
    unsigned status;
    std::string_view type;
  } const cases[] = {{400, "invalid_request_error"}, {401, "authentication_error"},
                     {403, "permission_error"},      {404, "not_found_error"},
                     {408, "invalid_request_error"}, {413, "request_too_large"},
                     {429, "rate_limit_error"},      {502, "api_error"},
                     {503, "overloaded_error"},      {504, "timeout_error"}};
  for (const auto& one : cases) {
    const auto parsed = boost::json::parse(error_body(Api::anthropic_messages, one.status, {"x", "y", hostile}));
    EXPECT_EQ(parsed.at("type").as_string(), "error");
    EXPECT_EQ(std::string_view(parsed.at("error").at("type").as_string()), one.type) << one.status;
    EXPECT_EQ(std::string_view(parsed.at("error").at("message").as_string()), hostile);
  }
}

TEST(ErrorEvent, IsOneEventOfTheClientsDialect) {
  struct {
    Api api;
    std::string lead;
    std::string_view message_at, type_at, type;
  } const cases[] = {
      {Api::openai_chat, "data: ", "/error/message", "/error/type", "upstream_error"},
      {Api::openai_completions, "data: ", "/error/message", "/error/type", "upstream_error"},
      {Api::sglang_generate, "data: ", "/error/message", "/error/type", "upstream_error"},
      {Api::llamacpp_completion, "data: ", "/error/message", "/error/type", "upstream_error"},
      {Api::kobold_generate, "data: ", "/error/message", "/error/type", "upstream_error"},
      {Api::other, "data: ", "/error/message", "/error/type", "upstream_error"},
      {Api::tgi_generate, "data:", "/error", "/error_type", "upstream_error"},
      {Api::anthropic_messages, "event: error\ndata: ", "/error/message", "/error/type", "api_error"},
      {Api::openai_responses, "event: error\ndata: ", "/message", "/type", "error"},
  };
  for (const auto& one : cases) {
    const auto event = error_event(one.api, 502, OwnError::replica_lost(hostile));
    ASSERT_THAT(event, StartsWith(one.lead));
    ASSERT_THAT(event, EndsWith("\n\n"));
    const auto data = event.substr(one.lead.size());
    EXPECT_EQ(data.find_first_of("\r\n"), data.size() - 2) << event;
    const auto json = boost::json::parse(data);
    EXPECT_EQ(std::string_view(json.at_pointer(one.message_at).as_string()), hostile) << event;
    EXPECT_EQ(std::string_view(json.at_pointer(one.type_at).as_string()), one.type) << event;
  }
}

TEST(ErrorEvent, OfOllamaIsALine) {
  for (const auto api : {Api::ollama_chat, Api::ollama_generate}) {
    const auto event = error_event(api, 502, OwnError::replica_lost(hostile));
    EXPECT_EQ(event.find_first_of("\r\n"), event.size() - 1) << event;
    EXPECT_EQ(std::string_view(boost::json::parse(event).at("error").as_string()), hostile);
  }
}

TEST(OwnAnswer, IsWholeAndFramed) {
  auto own = error_answer(429, "overloaded_error", "overloaded", "try again");
  own.retry_after = std::chrono::milliseconds(6001);
  const std::string body =
      R"({"error":{"message":"try again","type":"overloaded_error","param":null,"code":"overloaded"}})"
      "\n";
  OwnFraming framing{.api = metrics::Api::openai_chat, .request_id = "id-1", .weir_id = "weir-1"};
  EXPECT_EQ(own_answer(own, framing),
            "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: " +
                std::to_string(body.size()) +
                "\r\nRetry-After: 7\r\nretry-after-ms: 6001\r\nx-request-id: id-1\r\nx-weir-id: weir-1\r\n\r\n" + body);
  framing.keep_alive = false;
  EXPECT_THAT(own_answer(own, framing), HasSubstr("Connection: close\r\n\r\n{"));
  framing.http_1_1 = false;
  framing.keep_alive = true;
  EXPECT_THAT(own_answer(own, framing), HasSubstr("Connection: keep-alive\r\n\r\n{"));
  EXPECT_THAT(own_answer(own, framing), StartsWith("HTTP/1.0 429 "));
  framing.to_head = true;
  EXPECT_THAT(own_answer(own, framing), EndsWith("\r\n\r\n"));
  EXPECT_THAT(own_answer(own, framing), HasSubstr("Content-Length: " + std::to_string(body.size())));
  EXPECT_THAT(own_answer(own, OwnFraming{}), Not(HasSubstr("x-request-id")));
}

TEST(OwnAnswer, SaysWhatBelongsToItsStatusAndToThePageThatAsks) {
  OwnFraming framing;
  framing.cors = "Access-Control-Allow-Origin: *\r\n";
  EXPECT_THAT(own_answer(OwnAnswer{}, framing), HasSubstr("\r\nAccess-Control-Allow-Origin: *\r\n\r\n"));
  const auto of = [](unsigned status) {
    return own_answer(error_answer(status, "invalid_request_error", "bad_request", "no"), {});
  };
  EXPECT_THAT(of(405), HasSubstr("\r\nAllow: GET, HEAD, POST"));
  EXPECT_THAT(of(401), HasSubstr("\r\nWWW-Authenticate: Bearer\r\n"));
}

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
