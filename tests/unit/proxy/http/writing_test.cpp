#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <vector>

#include "proxy/http/credential.hpp"
#include "proxy/http/writing.hpp"

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

// weir writes requests to a replica and answers to a client.

namespace {

using namespace std::string_literals;

using ::testing::EndsWith;
using ::testing::StartsWith;

const config::ReplicaUrl url{"gpu0", 8000, "/engine", "gpu0:8000"};

std::string sent_on(const std::string& head, std::uint64_t body_length = 0, bool inspected = true) {
  const auto parsed = parse_request_head(head);
  EXPECT_TRUE(parsed) << head;
  return upstream_head(*parsed, {url, body_length, "id-1", inspected});
}
std::string sent_with_key(const std::string& fields) {
  const std::string head = "POST /generate HTTP/1.1\r\nHost: client.example\r\n" + fields + "\r\n";
  const auto parsed = parse_request_head(head);
  EXPECT_TRUE(parsed) << head;
  return upstream_head(*parsed, {url, 0, "id-1", true, "sk-0"});
}
std::string post_with(const std::string& fields) {
  return sent_on("POST /generate HTTP/1.1\r\nHost: client.example\r\n" + fields + "\r\n");
}

ClientAnswer answer_of(ClientFraming framing, std::uint64_t length = 0) {
  ClientAnswer answer;
  answer.framing = framing;
  answer.length = length;
  answer.request_id = "id-1";
  answer.weir_id = "weir-1";
  answer.replica = "gpu0";
  return answer;
}

std::string passed_back(const std::string& fields, const ClientAnswer& answer,
                        const std::string& status = "HTTP/1.1 200 OK", bool to_head = false) {
  const std::string bytes = status + "\r\n" + fields + "\r\n";
  const auto head = parse_response_head(bytes, to_head);
  EXPECT_TRUE(head) << bytes;
  return client_head(*head, answer);
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(UpstreamHead, SaysWhoseCopyItIsAndNobodyElseSaysSo) {
  const std::string head = "POST /generate HTTP/1.1\r\nHost: h\r\nX-Weir-Shadow: mine\r\n\r\n";
  EXPECT_THAT(sent_on(head), Not(HasSubstr("mine")));
  const auto parsed = parse_request_head(head);
  ASSERT_TRUE(parsed);
  UpstreamRequest copy{url, 0, "id-1"};
  copy.shadow = "fp8";
  const auto sent = upstream_head(*parsed, copy);
  EXPECT_THAT(sent, HasSubstr("x-weir-shadow: fp8\r\n"));
  EXPECT_THAT(sent, Not(HasSubstr("mine")));
}

TEST(UpstreamHead, HasNoFieldThatIsBetweenClientAndWeir) {
  const auto sent = post_with(
      "Proxy: http://evil\r\nPROXY: evil\r\nX-Weir-Id: evil\r\nx-weir-replica: evil\r\nX-WEIR-Key: evil\r\n"
      "X-Weir-: evil\r\nX-Weird: 1\r\nProxy-Status: 2\r\nX-Weir: 3\r\n");
  EXPECT_THAT(sent, Not(HasSubstr("evil")));
  EXPECT_THAT(sent, HasSubstr("X-Weird: 1\r\nProxy-Status: 2\r\nX-Weir: 3\r\n"));
}

TEST(UpstreamHead, IsCanonical) {
  EXPECT_EQ(
      sent_on("POST http://client.example/v1/completions?a=b HTTP/1.0\r\nhost: client.example\r\n"
              "content-type:  application/json \r\nContent-Length: 12\r\nX-Empty:\r\ntraceparent: 00-1-2-01\r\n\r\n",
              40),
      "POST /engine/v1/completions?a=b HTTP/1.1\r\nHost: gpu0:8000\r\ncontent-type: application/json\r\n"
      "X-Empty: \r\ntraceparent: 00-1-2-01\r\nx-request-id: id-1\r\nContent-Length: 40\r\n\r\n");
}

TEST(UpstreamHead, DropsWhatBelongsToTheClientsConnection) {
  const auto head = post_with(
      "Connection: Keep-Alive, X-Hop, Upgrade, HTTP2-Settings\r\nX-Hop: 1\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n"
      "Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic cGx1bXM=\r\nTE: trailers\r\n"
      "Trailer: X\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\nX-Kept: 2\r\n");
  EXPECT_EQ(head,
            "POST /engine/generate HTTP/1.1\r\nHost: gpu0:8000\r\nX-Kept: 2\r\nx-request-id: id-1\r\n"
            "Content-Length: 0\r\n\r\n");
}

TEST(UpstreamHead, AClientsKeyForWeirGoesToNoReplica) {
  const std::string bytes =
      "POST /generate HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer weir-12345\r\nX-API-Key: weir-2\r\n"
      "X-Copy: the weir-12345\r\nCookie: a=b\r\nX-Kept: 1\r\n\r\n";
  const auto head = parse_request_head(bytes);
  ASSERT_TRUE(head);
  UpstreamRequest request{url, 0, "id-1", true};
  EXPECT_EQ(count(upstream_head(*head, request), "weir-"), 3u) << "a credential that weir does not know goes on";
  request.client_key_ends_here = true;
  const auto without = upstream_head(*head, request);
  EXPECT_THAT(without, Not(HasSubstr("weir-")));
  EXPECT_THAT(without, AllOf(Not(HasSubstr("Cookie")), HasSubstr("X-Kept: 1\r\n")));
  request.api_key = "sk-0";
  const auto with = upstream_head(*head, request);
  EXPECT_THAT(with, Not(HasSubstr("weir-")));
  EXPECT_EQ(count(with, "Bearer sk-0\r\n"), 1u);
}

TEST(UpstreamHead, OfACopyHasNoCredentialThatIsKnownByItsName) {
  const std::string bytes =
      "POST /generate?key=s3cret&a=b HTTP/1.1\r\nHost: h\r\napi-key: s3cret\r\nX-Goog-Api-Key: s3cret\r\n"
      "Authorization: Bearer s3cret\r\nProxy-Authorization: Basic s3cret\r\nCookie: s3cret\r\nX-Kept: 1\r\n\r\n";
  const auto head = parse_request_head(bytes);
  ASSERT_TRUE(head);
  UpstreamRequest request{url, 0, "id-1", true};
  EXPECT_EQ(count(upstream_head(*head, request), "s3cret"), 5u) << "a primary gets all but Proxy-Authorization";
  request.keep_credentials = false;
  EXPECT_EQ(upstream_head(*head, request),
            "POST /engine/generate?a=b HTTP/1.1\r\nHost: gpu0:8000\r\nX-Kept: 1\r\nx-request-id: id-1\r\n"
            "Content-Length: 0\r\n\r\n");
}

TEST(UpstreamHead, TellsThatItCameThroughWeir) {
  for (const bool modern : {true, false}) {
    const auto bytes = "POST /generate HTTP/1."s + (modern ? "1" : "0") + "\r\nHost: h\r\nVia: 1.1 front\r\n\r\n";
    const auto head = parse_request_head(bytes);
    ASSERT_TRUE(head);
    UpstreamRequest request{url, 0, "id-1", true};
    EXPECT_EQ(count(upstream_head(*head, request), "Via"), 1u);
    request.via = name_in_via();
    const auto sent = upstream_head(*head, request);
    EXPECT_THAT(sent, HasSubstr("Via: 1.1 front\r\n"));
    const auto added = "\r\nVia: 1."s + (modern ? "1 " : "0 ") + name_in_via() + "\r\n";
    EXPECT_GT(sent.find(added), sent.find("front"));
    EXPECT_NE(sent.find(added), sent.npos);
  }
}

TEST(UpstreamHead, LetsNoNamePassForAnotherWithUnderscores) {
  const auto head = post_with("Content_Length: 9\r\nX_Request_Id: forged\r\n_: a\r\nAuthorization: Bearer k\r\n");
  EXPECT_THAT(head, Not(HasSubstr("_")));
  EXPECT_THAT(head, HasSubstr("Authorization: Bearer k\r\n"));
}

TEST(UpstreamHead, LetsNoFieldTakeThePlaceOfItsLine) {
  const auto head = post_with(
      "X-HTTP-Method-Override: DELETE\r\nX-Http-Method: PUT\r\nx-method-override: GET\r\nX-Original-URL: /admin\r\n"
      "X-Rewrite-URL: /admin\r\nX-Original: kept\r\n");
  EXPECT_THAT(head, Not(HasSubstr("verride")));
  EXPECT_THAT(head, Not(HasSubstr("Method:")));
  EXPECT_THAT(head, Not(HasSubstr("/admin")));
  EXPECT_THAT(head, HasSubstr("X-Original: kept\r\n"));
}

TEST(UpstreamHead, AsksForNoCodingWhereTheAnswerIsRead) {
  const std::string request = "POST /x HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip, br\r\n\r\n";
  EXPECT_THAT(sent_on(request, 0, true), Not(HasSubstr("gzip")));
  EXPECT_THAT(sent_on(request, 0, false), HasSubstr("Accept-Encoding: gzip, br\r\n"));
}

TEST(UpstreamHead, CarriesTheReplicasKeyInPlaceOfTheClientsCredential) {
  const std::string begin = "POST /engine/generate HTTP/1.1\r\nHost: gpu0:8000\r\n";
  const std::string end = "x-request-id: id-1\r\nContent-Length: 0\r\n\r\n";
  EXPECT_EQ(sent_with_key(""), begin + "Authorization: Bearer sk-0\r\n" + end) << "a client without one is served too";
  EXPECT_EQ(sent_with_key("AUTHORIZATION: Bearer theirs\r\nX-Kept: 1\r\n"),
            begin + "X-Kept: 1\r\nAuthorization: Bearer sk-0\r\n" + end);
  EXPECT_EQ(sent_with_key("X-Api-Key: theirs\r\n"), begin + "Authorization: Bearer sk-0\r\nx-api-key: sk-0\r\n" + end);
  const auto kept = post_with("Authorization: Bearer theirs\r\nX-Api-Key: theirs\r\n");
  EXPECT_EQ(count(kept, "theirs"), 2u) << "without a key of the replica's own the client's goes on";
}

TEST(UpstreamHead, TellsTheWayOnlyAsFarAsItIsBelieved) {
  const std::string head =
      "POST /x HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\n"
      "X-Forwarded-Proto: https\r\nX-Kept: 1\r\n\r\n";
  const auto parsed = parse_request_head(head);
  UpstreamRequest request{url, 0, "id-1"};
  constexpr std::string_view proxy = "10.0.0.1";
  const std::string begin = "POST /engine/x HTTP/1.1\r\nHost: gpu0:8000\r\n";
  const std::string end = "x-request-id: id-1\r\nContent-Length: 0\r\n\r\n";
  request.way = {true, proxy};
  EXPECT_EQ(upstream_head(*parsed, request),
            begin + "Forwarded: for=1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nX-Kept: 1\r\n" +
                "X-Forwarded-For: 1.2.3.4, 10.0.0.1\r\n" + end);
  request.way = {false, proxy};
  EXPECT_EQ(upstream_head(*parsed, request), begin + "X-Kept: 1\r\nX-Forwarded-For: 10.0.0.1\r\n" + end);
  request.way = {};
  EXPECT_EQ(upstream_head(*parsed, request), begin + "X-Kept: 1\r\n" + end);
}

TEST(UpstreamHead, CarriesOneRequestIdAndOneLength) {
  const auto head = post_with("X-Request-ID: forged\r\nx-request-id: forged\r\nContent-Length: 3\r\n");
  EXPECT_EQ(count(head, "x-request-id: id-1\r\n"), 1u);
  EXPECT_THAT(head, Not(HasSubstr("forged")));
  EXPECT_EQ(count(head, "Content-Length: "), 1u);
  EXPECT_THAT(head, HasSubstr("Content-Length: 0\r\n")) << "what goes out, not what came";
}

TEST(UpstreamHead, SaysNothingOfABodyThatIsNone) {
  EXPECT_THAT(sent_on("GET /x HTTP/1.1\r\nHost: h\r\n\r\n"), Not(HasSubstr("Content-Length")));
  EXPECT_THAT(sent_on("GET /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"), HasSubstr("Content-Length: 0\r\n"));
  EXPECT_THAT(sent_on("DELETE /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", 7),
              HasSubstr("Content-Length: 7\r\n"));
  EXPECT_THAT(sent_on("POST /x HTTP/1.1\r\nHost: h\r\n\r\n"), HasSubstr("Content-Length: 0\r\n"));
}

TEST(ClientHead, SaysOfCorsWhatTheSettingsSay) {
  const std::string fields =
      "Access-Control-Allow-Origin: https://other.example\r\naccess-control-allow-credentials: true\r\n"
      "Access-Controlled: 1\r\nVary: Accept\r\nContent-Length: 2\r\n";
  auto answer = answer_of(ClientFraming::length, 2);
  EXPECT_THAT(passed_back(fields, answer), HasSubstr("Access-Control-Allow-Origin: https://other.example\r\n"));
  answer.cors = "Access-Control-Allow-Origin: https://app.example\r\nVary: Origin\r\n";
  const auto head = passed_back(fields, answer);
  EXPECT_EQ(count(head, "ccess-control-allow"), 0u);
  EXPECT_EQ(count(head, "Access-Control-Allow-Origin: https://app.example\r\nVary: Origin\r\n"), 1u);
  EXPECT_THAT(head, HasSubstr("Access-Controlled: 1\r\nVary: Accept\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("other.example")));
}

TEST(ClientHead, IsCanonical) {
  EXPECT_EQ(passed_back("content-type: application/json\r\nContent-Length: 2\r\nSERVER: uvicorn\r\nx_y: 1\r\n",
                        answer_of(ClientFraming::length, 2)),
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nSERVER: uvicorn\r\nx_y: 1\r\nx-request-id: id-1\r\n"
            "x-weir-id: weir-1\r\nx-weir-replica: gpu0\r\nContent-Length: 2\r\n\r\n");
}

TEST(ClientHead, DropsWhatBelongsToTheReplicasConnection) {
  EXPECT_EQ(
      passed_back("Connection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nTransfer-Encoding: chunked\r\n"
                  "Trailer: X\r\nUpgrade: h2c\r\nProxy-Authenticate: Basic\r\nTE: x\r\nX-Kept: 2\r\n",
                  answer_of(ClientFraming::chunked)),
      "HTTP/1.1 200 OK\r\nX-Kept: 2\r\nx-request-id: id-1\r\nx-weir-id: weir-1\r\nx-weir-replica: gpu0\r\n"
      "Transfer-Encoding: chunked\r\n\r\n");
}

TEST(ClientHead, NamesTheReplicaItselfOrNotAndCarriesItsOwnIdsAlone) {
  auto answer = answer_of(ClientFraming::length, 2);
  const std::string forged =
      "X-Weir-Replica: other\r\nX-Request-Id: other\r\nX-Weir-Id: other\r\nContent-Length: 2\r\n";
  const auto head = passed_back(forged, answer);
  EXPECT_THAT(head, HasSubstr("x-weir-replica: gpu0\r\n"));
  EXPECT_EQ(count(head, "x-weir-id: weir-1\r\n"), 1u);
  EXPECT_THAT(head, Not(HasSubstr("other")));
  answer.replica = "";
  EXPECT_THAT(passed_back(forged, answer), Not(HasSubstr("eplica")));
}

TEST(ClientHead, FramesEachBodyInOneWay) {
  const struct {
    ClientFraming framing;
    bool http_1_1, keep_alive;
    std::string end;
  } rows[]{
      {ClientFraming::length, true, true, "gpu0\r\nContent-Length: 7\r\n\r\n"},
      {ClientFraming::length, true, false, "gpu0\r\nContent-Length: 7\r\nConnection: close\r\n\r\n"},
      {ClientFraming::length, false, true, "gpu0\r\nContent-Length: 7\r\nConnection: keep-alive\r\n\r\n"},
      {ClientFraming::length, false, false, "gpu0\r\nContent-Length: 7\r\nConnection: close\r\n\r\n"},
      {ClientFraming::chunked, true, true, "gpu0\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {ClientFraming::chunked, true, false, "gpu0\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"},
      {ClientFraming::close, true, true, "gpu0\r\nConnection: close\r\n\r\n"},
      {ClientFraming::close, false, true, "gpu0\r\nConnection: close\r\n\r\n"},
  };
  for (const auto& row : rows) {
    auto answer = answer_of(row.framing, 7);
    answer.http_1_1 = row.http_1_1;
    answer.keep_alive = row.keep_alive;
    for (const auto* replica : {"Content-Length: 9\r\n", "Transfer-Encoding: chunked\r\n", ""}) {
      const auto head = passed_back(replica, answer);
      EXPECT_THAT(head, StartsWith(row.http_1_1 ? "HTTP/1.1 200 OK\r\n" : "HTTP/1.0 200 OK\r\n"));
      EXPECT_THAT(head, EndsWith(row.end));
      EXPECT_LE(count(head, "Content-Length") + count(head, "Transfer-Encoding"), 1u) << head;
    }
  }
}

TEST(ClientHead, TellsTheLengthOfABodyThatDoesNotFollowWhereThatIsAFact) {
  const auto none = answer_of(ClientFraming::none);
  EXPECT_THAT(passed_back("Content-Length: 9\r\n", none, "HTTP/1.1 200 OK", true), HasSubstr("Content-Length: 9\r\n"));
  EXPECT_THAT(passed_back("Content-Length: 9\r\n", none, "HTTP/1.1 304 x"), HasSubstr("Content-Length: 9\r\n"));
  EXPECT_THAT(passed_back("Content-Length: 0\r\n", none, "HTTP/1.1 204 x"), Not(HasSubstr("Content-Length")))
      << "RFC 9110, 8.6: never with 204; a client might wait for it";
  EXPECT_THAT(passed_back("Transfer-Encoding: chunked\r\n", none, "HTTP/1.1 200 OK", true), Not(HasSubstr("chunked")));
}

TEST(ClientHead, KeepsBuffersAndCachesOffEventStreamsWhereTheReplicaSaidNothing) {
  auto answer = answer_of(ClientFraming::chunked);
  EXPECT_THAT(passed_back("", answer), Not(HasSubstr("no-cache")));
  answer.event_stream = true;
  EXPECT_THAT(passed_back("", answer), HasSubstr("X-Accel-Buffering: no\r\nCache-Control: no-cache, no-transform\r\n"));
  const auto said = passed_back("x-accel-buffering: yes\r\ncache-control: private\r\n", answer);
  EXPECT_EQ(count(said, "yes") + count(said, "private"), 2u);
  EXPECT_THAT(said, Not(HasSubstr("no-cache")));
  EXPECT_THAT(said, Not(HasSubstr("X-Accel-Buffering")));
}

TEST(ClientHead, SaysTheStatusInItsOwnWords) {
  const auto none = answer_of(ClientFraming::length);
  EXPECT_THAT(passed_back("Content-Length: 0\r\n", none, "HTTP/1.0 404 <script>"),
              StartsWith("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_THAT(passed_back("Content-Length: 0\r\n", none, "HTTP/1.1 529 Overloaded"), StartsWith("HTTP/1.1 529 \r\n"))
      << "an unknown one in none";
}

}  // namespace
}  // namespace weir::proxy::http
