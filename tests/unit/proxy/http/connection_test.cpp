// The Connection field (RFC 9110, 7.6.1) is a short list of tokens, and drops nothing that matters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proxy/http/head.hpp"
#include "tests/unit/proxy/http/asked_gate.hpp"

namespace weir::proxy::http {
namespace {

using namespace std::string_literals;

/// Returns a request head of these fields (each with its CRLF) behind a Host.
std::string with_connection(const std::string& value) {
  return "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: " + value + "\r\n\r\n";
}

// nginx and HAProxy skip what is no token, or search the value for words; Beast refuses it. Empty elements are no
// reason to refuse (RFC 9110, 5.6.1), and every token is an option, known or not.
TEST(RequestGate, TakesConnectionAsAListOfTokens) {
  const struct {
    const char* name;
    unsigned status;  ///< 0 if the head is let in.
    std::string head;
  } rows[]{
      {"one", 0, post("Connection: keep-alive\r\n")},
      {"two", 0, post("Connection: Keep-Alive, TE\r\n")},
      {"without blanks", 0, post("Connection: close,TE\r\n")},
      {"blanks around", 0, post("Connection: \t close \t,\t TE \r\n")},
      {"every token character", 0, post("Connection: !#$%&'*+-.^_`|~09azAZ\r\n")},
      {"nothing", 0, post("Connection:\r\n")},
      {"a comma", 0, post("Connection: ,\r\n")},
      {"empty elements", 0, post("Connection: ,keep-alive, ,\t,close ,\r\n")},
      {"a parameter", 400, post("Connection: Keep-Alive;q=1\r\n")},
      {"a semicolon", 400, post("Connection: keep-alive;\r\n")},
      {"two words", 400, post("Connection: keep-alive close\r\n")},
      {"two words with a tab", 400, post("Connection: close\tx\r\n")},
      {"in quotes", 400, post("Connection: \"close\"\r\n")},
      {"a comma in quotes", 400, post("Connection: \"x, close\"\r\n")},
      {"a byte that is no token before a good one", 400, post("Connection: @, close\r\n")},
      {"a byte that is no token behind a good one", 400, post("Connection: close, @\r\n")},
      {"a byte above ASCII", 400, post("Connection: close\x80\r\n")},
      {"a vertical tab", 400, post("Connection: \vclose\r\n")},
      {"a second field that is none", 400, post("Connection: close\r\nconnection: x/y\r\n")},
      {"Proxy-Connection, which weir drops unread", 0, post("Proxy-Connection: \"close\"\r\n")},
  };
  for (const auto& row : rows) EXPECT_EQ(refused_with(row.head), row.status) << row.name;
  EXPECT_EQ(parse_request_head(post("Connection: @\r\n")).error(), HeadError::bad_connection);
}

TEST(RequestGate, KeepsConnectionFromDroppingWhatMatters) {
  for (const auto* name : {"host", "Content-Length", "transfer-encoding", "Authorization", "content-type",
                           "content-encoding", "Content-Language", "content-anything", "cookie", "x-api-key"}) {
    EXPECT_EQ(refused_with(post("Connection: "s + name + "\r\n")), 400u) << name;
    EXPECT_EQ(refused_with(post("Connection: keep-alive ,\t"s + name + "\t,x\r\n")), 400u) << name;
    EXPECT_EQ(refused_with(post("Connection: keep-alive\r\nconnection: "s + name + "\r\n")), 400u) << name;
    EXPECT_EQ(refused_with(post("Connection: ,, "s + name + "\r\n")), 400u) << name << " behind empty elements";
    EXPECT_EQ(refused_with(post("Connection: x"s + name + "\r\n")), 0u) << name;
  }
}

TEST(RequestGate, KeepsAliveAsTheVersionAndConnectionSay) {
  const struct {
    bool keep_alive;
    std::string version, connection;
  } rows[]{
      {true, "1.1", ""},
      {false, "1.1", "Connection: close\r\n"},
      {false, "1.1", "Connection: Keep-Alive, CLOSE\r\n"},
      {false, "1.1", "Connection: x\r\nConnection: close\r\n"},
      {false, "1.1", "Connection: , ,close,\r\n"},
      {true, "1.1", "Connection:\r\n"},
      {true, "1.1", "Connection: closed\r\n"},
      {false, "1.0", ""},
      {true, "1.0", "Connection: keep-alive\r\n"},
      {false, "1.0", "Connection: keep-alive, close\r\n"},
      {false, "1.0", "Proxy-Connection: keep-alive\r\n"},
  };
  for (const auto& row : rows) {
    const auto head = "GET / HTTP/" + row.version + "\r\nHost: h\r\n" + row.connection + "\r\n";
    EXPECT_EQ(parse_request_head(head)->keep_alive, row.keep_alive) << head;
  }
}

TEST(RequestGate, MayNameSoManyConnectionOptions) {
  EXPECT_EQ(refused_with(with_connection(std::string(max_connection, 'a'))), 0u);
  EXPECT_EQ(refused_with(with_connection(std::string(max_connection + 1, 'a'))), 400u);
  const std::string twice = std::string(max_connection, 'a') + "\r\nConnection: a";
  EXPECT_EQ(refused_with(with_connection(twice)), 400u);
}

/// Every field is compared with every option: so the work of a head is bounded by the two limits.
TEST(RequestGate, SplitsSoManyConnectionOptionsAtMost) {
  const auto options = [](std::size_t count, const std::string& option) {
    std::string list;
    for (std::size_t i = 0; i < count; ++i) list += (i == 0 ? "" : ",") + option;
    return list;
  };
  for (const std::string option : {"a", "close", "x-mine"}) {
    EXPECT_EQ(refused_with(with_connection(options(max_options, option))), 0u);
    EXPECT_EQ(refused_with(with_connection(options(max_options + 1, option))), 400u);
    const auto in_two = options(max_options, option) + "\r\nConnection: " + option;
    EXPECT_EQ(refused_with(with_connection(in_two)), 400u);
  }
  EXPECT_EQ(refused_with(with_connection(options(500, ""))), 0u) << "an empty element is no option";
  const auto bytes = with_connection(options(16, "close") + "," + options(16, "Upgrade"));
  EXPECT_THAT(parse_request_head(bytes)->named, testing::IsEmpty()) << "what always ends here is not kept";
}

TEST(RequestGate, TakesOneCredentialOfEachKind) {
  const std::string a = "Authorization: Bearer a\r\n", x = "X-Api-Key: a\r\n", other = "AUTHORIZATION: Basic a\r\n";
  for (const auto& fields : {a, x, a + x}) EXPECT_EQ(refused_with(post(fields)), 0u) << fields;
  for (const auto& fields : {a + a, a + other, x + x, a + x + a}) EXPECT_EQ(refused_with(post(fields)), 400u) << fields;
}

TEST(HopByHop, IsWhatTheStandardListsAndWhatConnectionNames) {
  const std::string bytes = post("Connection: close, X-Mine\r\nconnection: ,x-too\r\n");
  const auto head = parse_request_head(bytes);
  ASSERT_TRUE(head);
  for (const auto* name : {"Connection", "keep-alive", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding",
                           "Upgrade", "Proxy-Authorization", "proxy-authenticate", "x-mine", "X-TOO", "close"})
    EXPECT_TRUE(is_hop_by_hop({name, ""}, head->named)) << name;
  for (const auto* name : {"Host", "x-min", "x-mine2", "Accept", "authorization"})
    EXPECT_FALSE(is_hop_by_hop({name, ""}, head->named)) << name;
}

}  // namespace
}  // namespace weir::proxy::http
