// The strict gate as tables: it refuses by the head alone (RFC 9110, RFC 9112), and reads the heads that it lets in.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "proxy/http/head.hpp"
#include "tests/unit/proxy/http/asked_gate.hpp"

namespace weir::proxy::http {
namespace {

using namespace std::string_literals;

/// Returns a request head of these fields (each with its CRLF) behind a Host.
std::string get(const std::string& target) { return "GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n"; }
std::string hosted(const std::string& fields) { return "GET / HTTP/1.1\r\n" + fields + "\r\n"; }
std::string ok(const std::string& fields) { return "HTTP/1.1 200 OK\r\n" + fields + "\r\n"; }

std::string fields(std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += "x" + std::to_string(i) + ": v\r\n";
  return all;
}

struct Row {
  const char* name;
  unsigned status;  ///< 0 if the head is let in.
  std::string head;
};

void hold_against(const std::vector<Row>& rows) {
  for (const auto& row : rows) EXPECT_EQ(refused_with(row.head), row.status) << row.name << "\n" << row.head;
}

TEST(SameToken, IgnoresTheCaseOfAsciiLettersAlone) {
  const auto small = [](int c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; };
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string one{'x', static_cast<char>(a)}, other{'X', static_cast<char>(b)};
      ASSERT_EQ(same_token(one, other), small(a) == small(b)) << a << ' ' << b;
    }
  }
  EXPECT_TRUE(same_token("", ""));
  EXPECT_FALSE(same_token("host", "hos"));
  EXPECT_FALSE(same_token("", "h"));
}

TEST(IsValue, HoldsForEveryByteAtEveryPlaceOfATextOfAnyLength) {
  EXPECT_TRUE(is_value(""));
  for (std::size_t size = 1; size <= 33; ++size) {
    for (std::size_t at = 0; at < size; ++at) {
      for (int byte = 0; byte < 256; ++byte) {
        std::string text(size, byte % 2 == 0 ? 'v' : '\x80');
        text[at] = static_cast<char>(byte);
        ASSERT_EQ(is_value(text), byte == '\t' || (byte >= 0x20 && byte != 0x7f)) << size << ' ' << at << ' ' << byte;
      }
    }
  }
}

TEST(RequestGate, TakesOneContentLengthOrOneChunkedAndNeverBoth) {
  hold_against({
      {"a length", 0, post("Content-Length: 5\r\n")},
      {"a length between blanks", 0, post("Content-Length: \t 5 \t\r\n")},
      {"the largest length", 0, post("Content-Length: 18446744073709551615\r\n")},
      {"chunked", 0, post("Transfer-Encoding: chunked\r\n")},
      {"chunked in capitals", 0, post("TRANSFER-ENCODING: ChunKed\r\n")},
      {"length, then encoding", 400, post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n")},
      {"encoding, then length", 400, post("Transfer-Encoding: chunked\r\nX: y\r\nContent-Length: 5\r\n")},
      {"length 0 and encoding", 400, post("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n")},
      {"identity and length", 400, post("Transfer-Encoding: identity\r\nContent-Length: 5\r\n")},
      {"two lengths", 400, post("Content-Length: 5\r\nContent-Length: 6\r\n")},
      {"two equal lengths", 400, post("Content-Length: 5\r\ncontent-length: 5\r\n")},
      {"two encodings", 400, post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n")},
      {"an encoding and another", 400, post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n")},
      {"a list of lengths", 400, post("Content-Length: 5, 5\r\n")},
      {"a list that begins empty", 400, post("Content-Length: ,5\r\n")},
      {"plus", 400, post("Content-Length: +5\r\n")},
      {"minus", 400, post("Content-Length: -5\r\n")},
      {"minus nothing", 400, post("Content-Length: -0\r\n")},
      {"a space inside", 400, post("Content-Length: 5 5\r\n")},
      {"a tab inside", 400, post("Content-Length: 5\t5\r\n")},
      {"hexadecimal", 400, post("Content-Length: 0x5\r\n")},
      {"a hexadecimal digit", 400, post("Content-Length: a\r\n")},
      {"a fraction", 400, post("Content-Length: 5.0\r\n")},
      {"an exponent", 400, post("Content-Length: 5e1\r\n")},
      {"quoted", 400, post("Content-Length: \"5\"\r\n")},
      {"a digit of another script", 400, post("Content-Length: \xd9\xa5\r\n")},
      {"one above the largest", 400, post("Content-Length: 18446744073709551616\r\n")},
      {"far above the largest", 400, post("Content-Length: " + std::string(400, '9') + "\r\n")},
      {"leading zeros", 400, post("Content-Length: 05\r\n")},
      {"two zeros", 400, post("Content-Length: 00\r\n")},
      {"an empty length", 400, post("Content-Length:\r\n")},
      {"a blank length", 400, post("Content-Length:  \r\n")},
  });
}

TEST(RequestGate, KnowsNoTransferCodingButChunked) {
  hold_against({
      {"gzip", 501, post("Transfer-Encoding: gzip\r\n")},
      {"xchunked", 501, post("Transfer-Encoding: xchunked\r\n")},
      {"identity", 501, post("Transfer-Encoding: identity\r\n")},
      {"chunked twice", 400, post("Transfer-Encoding: chunked, chunked\r\n")},
      {"gzip, chunked", 400, post("Transfer-Encoding: gzip, chunked\r\n")},
      {"chunked, gzip", 400, post("Transfer-Encoding: chunked, gzip\r\n")},
      {"chunked with a parameter", 400, post("Transfer-Encoding: chunked;q=1\r\n")},
      {"a list that ends empty", 400, post("Transfer-Encoding: chunked,\r\n")},
      {"a list that begins empty", 400, post("Transfer-Encoding: , chunked\r\n")},
      {"quoted", 400, post("Transfer-Encoding: \"chunked\"\r\n")},
      {"empty", 400, post("Transfer-Encoding:\r\n")},
      {"a vertical tab before it", 400, post("Transfer-Encoding: \vchunked\r\n")},
      {"a byte behind it", 400, post("Transfer-Encoding: chunked\x80\r\n")},
      {"in HTTP/1.0", 400, "POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {"another in HTTP/1.0", 400, "POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n"},
  });
}

TEST(RequestGate, ServesHttp10And11) {
  hold_against({
      {"1.1", 0, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"1.0", 0, "GET / HTTP/1.0\r\nHost: h\r\n\r\n"},
      {"1.2", 505, "GET / HTTP/1.2\r\nHost: h\r\n\r\n"},
      {"0.9", 505, "GET / HTTP/0.9\r\nHost: h\r\n\r\n"},
      {"2.0", 505, "GET / HTTP/2.0\r\nHost: h\r\n\r\n"},
      {"the HTTP/2 preface", 505, "PRI * HTTP/2.0\r\n\r\n"},
      {"two digits", 505, "GET / HTTP/1.10\r\nHost: h\r\n\r\n"},
      {"no minor version", 505, "GET / HTTP/1\r\nHost: h\r\n\r\n"},
      {"small letters", 400, "GET / http/1.1\r\nHost: h\r\n\r\n"},
      {"another protocol", 400, "GET / SPDY/1.1\r\nHost: h\r\n\r\n"},
      {"no version", 400, "GET /\r\nHost: h\r\n\r\n"},
      {"a space behind it", 400, "GET / HTTP/1.1 \r\nHost: h\r\n\r\n"},
  });
}

TEST(RequestGate, WantsOneValidHost) {
  hold_against({
      {"a name", 0, hosted("Host: example.com\r\n")},
      {"a name and a port", 0, hosted("Host: my_service-1.example:8080\r\n")},
      {"an IPv4 address", 0, hosted("Host: 127.0.0.1:80\r\n")},
      {"an IPv6 address", 0, hosted("Host: [::1]\r\n")},
      {"an IPv6 address and a port", 0, hosted("Host: [fe80::1:2.3.4.5]:8080\r\n")},
      {"none", 400, hosted("Accept: x\r\n")},
      {"two", 400, hosted("Host: a\r\nHost: b\r\n")},
      {"two equal ones", 400, hosted("Host: a\r\nhost: a\r\n")},
      {"empty", 400, hosted("Host:\r\n")},
      {"a list", 400, hosted("Host: a, b\r\n")},
      {"a user", 400, hosted("Host: user@a\r\n")},
      {"a path", 400, hosted("Host: a/b\r\n")},
      {"a scheme", 400, hosted("Host: http://a\r\n")},
      {"a space", 400, hosted("Host: a b\r\n")},
      {"a port that is none", 400, hosted("Host: a:http\r\n")},
      {"two ports", 400, hosted("Host: a:80:81\r\n")},
      {"a port alone", 400, hosted("Host: :80\r\n")},
      {"a port too long", 400, hosted("Host: a:808080\r\n")},
      {"colons alone", 400, hosted("Host: :::\r\n")},
      {"an address without its bracket", 400, hosted("Host: [::1\r\n")},
      {"an empty address", 400, hosted("Host: []\r\n")},
      {"something behind the bracket", 400, hosted("Host: [::1]x\r\n")},
      {"a bracket inside", 400, hosted("Host: a]b\r\n")},
      {"a quote", 400, hosted("Host: a\"b\r\n")},
      {"bytes above ASCII", 400, hosted("Host: b\xc3\xbc\r\n")},
      {"too long", 400, hosted("Host: " + std::string(256, 'a') + "\r\n")},
      {"two in HTTP/1.0", 400, "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"},
      {"none in HTTP/1.0, which has no Host", 0, "GET / HTTP/1.0\r\n\r\n"},
  });
}

TEST(RequestGate, TakesAnAbsoluteTargetOnlyWhereItAgreesWithHost) {
  hold_against({
      {"agrees", 0, get("http://h/x")},
      {"agrees, in capitals", 0, get("HTTP://H/x")},
      {"no path", 0, get("http://h")},
      {"another host", 400, get("http://other/x")},
      {"another port", 400, get("http://h:81/x")},
      {"a user", 400, get("http://u@h/x")},
      {"no authority", 400, get("http:///x")},
      {"another scheme", 400, get("https://h/x")},
      {"an unknown scheme", 400, get("file:///etc/passwd")},
      {"without Host, in HTTP/1.0", 0, "GET http://h/x HTTP/1.0\r\n\r\n"},
      {"an invalid authority without Host", 400, "GET http://a:b:c/x HTTP/1.0\r\n\r\n"},
      {"no authority without Host", 400, "GET http:///x HTTP/1.0\r\n\r\n"},
  });
}

TEST(RequestGate, RefusesHeadsThatTwoReadersMayReadInTwoWays) {
  hold_against({
      {"a folded line", 400, post("X: a\r\n b\r\n")},
      {"a line folded with a tab", 400, post("X: a\r\n\tb: c\r\n")},
      {"a folded first field", 400, "GET / HTTP/1.1\r\n Host: h\r\n\r\n"},
      {"a blank line of blanks", 400, "GET / HTTP/1.1\r\nHost: h\r\n \r\n\r\n"},
      {"bare LF behind a field", 400, post("X: a\nContent-Length: 5\r\n")},
      {"bare LF behind the request line", 400, "GET / HTTP/1.1\nHost: h\r\n\r\n"},
      {"bare LF for the blank line", 400, "GET / HTTP/1.1\r\nHost: h\r\n\n"},
      {"bare LF everywhere", 400, "GET / HTTP/1.1\nHost: h\n\n"},
      {"bare CR in a value", 400, post("X: a\rContent-Length: 5\r\n")},
      {"CR before CRLF", 400, post("X: a\r\r\n")},
      {"bare CR in the request line", 400, "GET /\r HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"NUL in a value", 400, post("X: a\0b\r\n"s)},
      {"NUL in a name", 400, post("X\0: a\r\n"s)},
      {"NUL in the request line", 400, "GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n"s},
      {"a control byte in a value", 400, post("X: a\x01\r\n")},
      {"DEL in a value", 400, post("X: a\x7f\r\n")},
      {"bytes above ASCII in a value", 0, post("X: \xc3\xa4\r\n")},
      {"an empty value", 0, post("X:\r\n")},
      {"space before the colon", 400, post("Content-Length : 5\r\n")},
      {"tab before the colon", 400, post("X\t: 5\r\n")},
      {"no name", 400, post(": a\r\n")},
      {"no colon", 400, post("X\r\n")},
      {"a name with a slash", 400, post("X/Y: a\r\n")},
      {"a name with bytes above ASCII", 400, post("X\xe9: a\r\n")},
      {"a name with brackets", 400, post("X[1]: a\r\n")},
      {"every token character in a name", 0, post("!#$%&'*+-.^_`|~09azAZ: a\r\n")},
      {"a space before the request line", 400, " GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"an empty line before the request line", 400, "\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"nothing but a blank line", 400, "\r\n\r\n"},
      {"a method that is no token", 400, "G(T / HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"no method", 400, " / HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"a tab for a space", 400, "GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"the start of a TLS connection", 400, "\x16\x03\x01\x02\x00\x01\r\n\r\n"s},
  });
}

TEST(RequestGate, TakesPrintableTargetsOnly) {
  hold_against({
      {"a query", 0, get("/generate?a=b&c=%20")},
      {"a double slash", 0, get("//generate")},
      {"the last printable byte", 0, get("/~")},
      {"a space", 400, get("/a b")},
      {"two spaces before it", 400, get(" /a")},
      {"a tab", 400, get("/a\tb")},
      {"DEL", 400, get("/a\x7f")},
      {"bytes above ASCII", 400, get("/\xc3\xa4")},
      {"a fragment", 400, get("/a#b")},
      {"no slash", 400, get("generate")},
      {"the star", 0, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"the star, of another method", 400, get("*")},
      {"the star and more", 400, "OPTIONS *?a HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"the star behind an authority", 400, "OPTIONS http://h* HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"an authority", 400, get("h:80")},
      {"nothing", 400, "GET  HTTP/1.1\r\nHost: h\r\n\r\n"},
  });
}

TEST(RequestGate, TakesNoOtherByteInATarget) {
  int taken = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = byte >= 0x21 && byte <= 0x7e && byte != '#';
    const auto head = parse_request_head(get("/a" + std::string(1, static_cast<char>(byte)) + "b"));
    EXPECT_EQ(head ? 0u : refusal_of(head.error()).status, printable ? 0u : 400u) << byte;
    taken += head.has_value();
  }
  EXPECT_EQ(taken, 93);
}

TEST(RequestGate, NeverTunnels) {
  hold_against({
      {"CONNECT", 405, "CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n"},
      {"TRACE", 405, "TRACE / HTTP/1.1\r\nHost: h\r\n\r\n"},
      {"Upgrade", 0, post("Connection: Upgrade\r\nUpgrade: websocket\r\n")},
      {"h2c", 0, post("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n")},
  });
}

TEST(RequestGate, KnowsOneExpectation) {
  hold_against({
      {"100-continue", 0, post("Expect: 100-continue\r\n")},
      {"in capitals", 0, post("Expect: 100-Continue\r\n")},
      {"another", 417, post("Expect: 200-ok\r\n")},
      {"nothing", 417, post("Expect:\r\n")},
      {"two in one", 417, post("Expect: 100-continue, x\r\n")},
      {"another behind it", 417, post("Expect: 100-continue\r\nExpect: x\r\n")},
  });
  EXPECT_TRUE(parse_request_head(post("Expect: 100-continue\r\n"))->expects_continue);
  EXPECT_FALSE(parse_request_head("POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n")->expects_continue)
      << "RFC 9110, 10.1.1: not for HTTP/1.0, which knows no interim answers";
}

TEST(RequestGate, LimitsTheRequestLineAndTheFields) {
  const std::string rest = " HTTP/1.1";
  const std::string longest = "/" + std::string(max_request_line - rest.size() - 5, 'a');  // They are "GET " and the
                                                                                           // slash.
  hold_against({
      {"the longest line", 0, "GET " + longest + rest + "\r\nHost: h\r\n\r\n"},
      {"one byte more", 414, "GET " + longest + "a" + rest + "\r\nHost: h\r\n\r\n"},
      {"most fields", 0, hosted("Host: h\r\n" + fields(max_fields - 1))},
      {"one field more", 431, hosted("Host: h\r\n" + fields(max_fields))},
      {"one field more with a NUL", 400, hosted("Host: h\r\n" + fields(max_fields - 1) + "a: \0\r\n"s)},
      {"one field more with a CR", 400, hosted("Host: h\r\n" + fields(max_fields - 1) + "a: \ra\r\n")},
  });
}

TEST(RequestGate, SaysWhatAHeadAsksFor) {
  const std::string bytes =
      "POST http://h:80/generate?x=/y HTTP/1.1\r\nHOST: h:80\r\nContent-Length: 12\r\nX-A:  1 \r\nx-a: 2\r\n\r\n";
  const auto head = parse_request_head(bytes);
  ASSERT_TRUE(head);
  EXPECT_EQ(head->method, "POST");
  EXPECT_EQ(head->target, "/generate?x=/y");
  EXPECT_EQ(head->path, "/generate");
  EXPECT_TRUE(head->http_1_1);
  EXPECT_EQ(head->framing, Framing::length);
  EXPECT_EQ(head->content_length, 12u);
  EXPECT_EQ((*head)["x-A"], "1") << "the first, without its blanks";
  EXPECT_EQ((*head)["x-b"], "");
  EXPECT_EQ(parse_request_head(get("http://h"))->target, "/");
  EXPECT_EQ(parse_request_head("OPTIONS http://h HTTP/1.1\r\nHost: h\r\n\r\n")->path, "*") << "RFC 9112, 3.2.4";
  EXPECT_EQ(parse_request_head("OPTIONS http://h/ HTTP/1.1\r\nHost: h\r\n\r\n")->path, "/");
  EXPECT_EQ(parse_request_head(get("/"))->framing, Framing::none);
  EXPECT_EQ(parse_request_head(post("Transfer-Encoding: chunked\r\n"))->framing, Framing::chunked);
}

TEST(ResponseGate, RefusesWhatIsOdd) {
  const std::string odd[]{
      "HTTP/1.1 200 OK\nContent-Length: 2\n\n",
      "HTTP/1.1 20 OK\r\n\r\n",
      "HTTP/1.1 2000 OK\r\n\r\n",
      "HTTP/1.1 099 OK\r\n\r\n",
      "HTTP/1.1 600 OK\r\n\r\n",
      "HTTP/1.1 +20 OK\r\n\r\n",
      "HTTP/1.1 2 0 OK\r\n\r\n",
      "HTTP/1.1 200OK\r\n\r\n",
      "HTTP/1.1  200 OK\r\n\r\n",
      "HTTP/1.1\r\n\r\n",
      "HTTP/2 200\r\n\r\n",
      "HTTP/1.2 200 OK\r\n\r\n",
      "http/1.1 200 OK\r\n\r\n",
      "ICY 200 OK\r\n\r\n",
      "SSH-2.0-OpenSSH_9.2\r\n\r\n",
      "HTTP/1.1 200 O\0K\r\n\r\n"s,
      "HTTP/1.1 200 O\rK\r\n\r\n",
      "HTTP/1.1 200 O\x01K\r\n\r\n",
      "HTTP/1.1 200 O\x7fK\r\n\r\n",
      "HTTP/1.1 200\tOK\r\n\r\n",
      "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
      ok("Content-Length: 2\r\nContent-Length: 2\r\n"),
      ok("Content-Length: 2, 2\r\n"),
      ok("Content-Length: -2\r\n"),
      ok("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"),
      ok("Transfer-Encoding: gzip, chunked\r\n"),
      ok("Transfer-Encoding: gzip\r\n"),
      ok("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
      ok("X: a\r\n b\r\n"),
      ok("X : a\r\n"),
      ok("X\r\n"),
      ok("Connection: content-type\r\nContent-Type: text/event-stream\r\n"),
      ok("Connection: close;x\r\n"),
      ok(fields(max_fields + 1)),
      "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n",
      "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
      "HTTP/1.1 100 Continue\r\nContent-Length: 2\r\n\r\n",
      "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n",
  };
  for (const auto& head : odd) {
    EXPECT_FALSE(parse_response_head(head, false)) << head;
    EXPECT_FALSE(parse_response_head(head, true)) << head;
  }
}

TEST(ResponseGate, KnowsHowTheBodyEnds) {
  const struct {
    const char* what;
    std::string head;
    bool to_head;
    Framing framing;
    bool keep_alive;
  } rows[]{
      {"a length", ok("Content-Length: 2\r\n"), false, Framing::length, true},
      {"chunked", ok("Transfer-Encoding: Chunked\r\n"), false, Framing::chunked, true},
      {"neither", ok(""), false, Framing::until_close, false},
      {"neither, keep-alive", ok("Connection: keep-alive\r\n"), false, Framing::until_close, false},
      {"closing", ok("Content-Length: 2\r\nConnection: close\r\n"), false, Framing::length, false},
      {"1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n", false, Framing::length, false},
      {"1.0, keep-alive", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n", false,
       Framing::length, true},
      {"to HEAD", ok("Content-Length: 2\r\n"), true, Framing::none, false},
      {"chunked to HEAD", ok("Transfer-Encoding: chunked\r\n"), true, Framing::none, false},
      {"no bytes to HEAD", ok("Content-Length: 0\r\n"), true, Framing::none, true},
      {"neither to HEAD", ok(""), true, Framing::none, false},
      {"204", "HTTP/1.1 204 No Content\r\n\r\n", false, Framing::none, false},
      {"204 of no bytes", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", false, Framing::none, true},
      {"304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", false, Framing::none, false},
      {"100", "HTTP/1.1 100 Continue\r\n\r\n", false, Framing::none, true},
      {"no reason", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n", false, Framing::length, true},
      {"a reason above ASCII", "HTTP/1.1 200 \xc3\xa4 \t!\r\nContent-Length: 2\r\n\r\n", false, Framing::length, true},
      {"an empty reason", "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\n", false, Framing::length, true},
  };
  for (const auto& row : rows) {
    const auto head = parse_response_head(row.head, row.to_head);
    ASSERT_TRUE(head) << row.what;
    EXPECT_EQ(head->framing, row.framing) << row.what;
    EXPECT_EQ(head->keep_alive, row.keep_alive) << row.what;
    if (row.framing == Framing::length) {
      EXPECT_EQ(head->content_length, 2u) << row.what;
    }
  }
}

TEST(HeadLength, IsFoundInPiecesOfAnySize) {
  const std::string heads[]{get("/"), ok("A: b\r\n"), "\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"};
  for (const auto& head : heads)
    for (std::size_t size = 0; size <= head.size(); ++size) {
      const auto text = head + "\r\n\r\nbody";
      for (std::size_t seen = 0; seen <= size; ++seen) {
        const auto length = head_length(std::string_view(text).substr(0, size), seen);
        ASSERT_EQ(length.has_value(), size == head.size() && seen < size) << size << " " << seen << " " << head;
        if (length) {
          ASSERT_EQ(*length, head.size());
        }
      }
    }
  EXPECT_EQ(head_length(heads[0] + heads[1], 0), heads[0].size()) << "the first of two";
}

TEST(HeadLength, DoesNotWaitForTheEndOfAHeadThatABareLineFeedHasSpoiled) {
  const std::string head = "GET / HTTP/1.1\r\nHost: h\nX: y\n\n";
  const auto spoiled = head.find("\nX") + 1;
  for (std::size_t size = 0; size <= head.size(); ++size) {
    const auto length = head_length(std::string_view(head).substr(0, size), 0);
    ASSERT_EQ(length.has_value(), size >= spoiled) << size;
    if (length) {
      EXPECT_EQ(*length, spoiled);
    }
  }
  EXPECT_FALSE(parse_request_head(head.substr(0, spoiled)));
  EXPECT_EQ(head_length("\n", 0), 1u);
}

const std::vector<std::pair<std::string, FieldName>> known{
    {"Accept-Encoding", FieldName::accept_encoding},
    {"Api-Key", FieldName::api_key},
    {"Authorization", FieldName::authorization},
    {"Cache-Control", FieldName::cache_control},
    {"Close", FieldName::close},
    {"Connection", FieldName::connection},
    {"Content-Encoding", FieldName::content_encoding},
    {"Content-Length", FieldName::content_length},
    {"Content-Type", FieldName::content_type},
    {"Cookie", FieldName::cookie},
    {"Expect", FieldName::expect},
    {"Forwarded", FieldName::forwarded},
    {"Host", FieldName::host},
    {"Keep-Alive", FieldName::keep_alive},
    {"Ocp-Apim-Subscription-Key", FieldName::ocp_apim_subscription_key},
    {"Origin", FieldName::origin},
    {"Proxy-Authenticate", FieldName::proxy_authenticate},
    {"Proxy-Authorization", FieldName::proxy_authorization},
    {"Proxy-Connection", FieldName::proxy_connection},
    {"TE", FieldName::te},
    {"Trailer", FieldName::trailer},
    {"Transfer-Encoding", FieldName::transfer_encoding},
    {"Upgrade", FieldName::upgrade},
    {"Via", FieldName::via},
    {"X-Accel-Buffering", FieldName::x_accel_buffering},
    {"X-Access-Token", FieldName::x_access_token},
    {"X-Amz-Security-Token", FieldName::x_amz_security_token},
    {"X-Api-Key", FieldName::x_api_key},
    {"X-Auth-Token", FieldName::x_auth_token},
    {"X-Forwarded-For", FieldName::x_forwarded_for},
    {"X-Goog-Api-Key", FieldName::x_goog_api_key},
    {"X-Real-IP", FieldName::x_real_ip},
    {"X-Request-Id", FieldName::x_request_id},
    {"X-Weir-Id", FieldName::x_weir_id},
    {"X-Weir-Replica", FieldName::x_weir_replica},
    {"X-Weir-Shadow", FieldName::x_weir_shadow},
};

/// The rule that field_name() makes fast.
FieldName naive(std::string_view text) {
  const auto found = std::ranges::find_if(known, [text](const auto& one) { return same_token(one.first, text); });
  return found == known.end() ? FieldName::other : found->second;
}

TEST(FieldName, KnowsEachNameInAnyCase) {
  EXPECT_EQ(known.size(), static_cast<std::size_t>(FieldName::x_weir_shadow)) << "the list here is whole";
  for (auto [text, name] : known) {
    EXPECT_EQ(field_name(text), name) << text;
    std::ranges::transform(text, text.begin(), [](char c) { return c >= 'a' && c <= 'z' ? char(c - 32) : c; });
    EXPECT_EQ(field_name(text), name) << text;
  }
}

TEST(FieldName, IsThatOfANaiveSearchIfOneByteIsAnother) {
  for (const auto& [text, name] : known) {
    for (std::size_t at = 0; at < text.size(); ++at) {
      for (int byte = 0; byte < 256; ++byte) {
        auto other = text;
        other[at] = static_cast<char>(byte);
        ASSERT_EQ(field_name(other), naive(other)) << other;
      }
    }
  }
}

TEST(FieldName, IsThatOfANaiveSearchIfTheLengthIsAnother) {
  for (const auto& [text, name] : known) {
    for (std::size_t end = 0; end <= text.size(); ++end) {
      ASSERT_EQ(field_name(text.substr(0, end)), naive(text.substr(0, end))) << text.substr(0, end);
      ASSERT_EQ(field_name(text.substr(end)), naive(text.substr(end))) << text.substr(end);
    }
    for (const auto& more : {std::string(1, '\0'), std::string(40, '\0'), std::string("-"), std::string("e")})
      ASSERT_EQ(field_name(text + more), FieldName::other) << text;
  }
}

TEST(FieldName, IsThatOfANaiveSearchForRandomNames) {
  std::mt19937 random(20261124);
  const auto below = [&random](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  constexpr std::string_view letters = "aehnotrxyACEHNORTXY-_0\r";
  std::size_t found = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text;
    if (below(2) == 0) {
      text = known[below(known.size())].first;
      for (auto& c : text)
        if (below(2) == 0 && c != '-') c = static_cast<char>(c ^ 0x20);
      for (auto changes = below(3); changes > 0; --changes) text[below(text.size())] = letters[below(letters.size())];
    } else {
      for (auto size = below(30); size > 0; --size) text += letters[below(letters.size())];
    }
    const auto name = naive(text);
    found += name != FieldName::other;
    ASSERT_EQ(field_name(text), name) << text;
  }
  EXPECT_GT(found, 20'000U);
}

}  // namespace
}  // namespace weir::proxy::http
