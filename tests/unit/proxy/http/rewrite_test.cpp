// weir writes requests to a replica and answers to a client.
#include "proxy/http/rewrite.hpp"

#include "proxy/http/credential.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::proxy::http {
namespace {

using namespace std::string_literals;

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
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
