#include "config/url.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace weir::config {
namespace {

TEST(ReplicaUrlText, IsTakenApart) {
  const std::pair<const char*, ReplicaUrl> table[] = {
      {"http://127.0.0.1:8001", {"127.0.0.1", 8001, "", "127.0.0.1:8001"}},
      {"http://gpu-box", {"gpu-box", 80, "", "gpu-box"}},
      {"http://gpu-box/", {"gpu-box", 80, "", "gpu-box"}},
      {"HTTP://gpu_0.example:80", {"gpu_0.example", 80, "", "gpu_0.example:80"}},
      {"http://GPU-Box:1", {"gpu-box", 1, "", "GPU-Box:1"}},
      {"http://10.0.0.7:65535/engines/a", {"10.0.0.7", 65535, "/engines/a", "10.0.0.7:65535"}},
      {"http://h/a/", {"h", 80, "/a", "h"}},
      {"http://h/a//", {"h", 80, "/a", "h"}},
      {"http://h/a%20b", {"h", 80, "/a%20b", "h"}},
      {"http://h/v1a", {"h", 80, "/v1a", "h"}},
      {"http://h/v1/engine", {"h", 80, "/v1/engine", "h"}},
      {"http://[::1]:8001/v", {"::1", 8001, "/v", "[::1]:8001"}},
      {"http://[FD00:0::7]", {"fd00::7", 80, "", "[FD00:0::7]"}},
      {"https://gpu-box", {"gpu-box", 443, "", "gpu-box", true}},
      {"HTTPS://gpu-box:8443/a", {"gpu-box", 8443, "/a", "gpu-box:8443", true}},
      {"unix:/run/vllm.sock", {"", 0, "", "localhost", false, "/run/vllm.sock"}},
      {"unix:/a b", {"", 0, "", "localhost", false, "/a b"}}};
  for (const auto& [text, expected] : table) {
    const auto parsed = parse_replica_url(text);
    const auto* url = std::get_if<ReplicaUrl>(&parsed);
    ASSERT_TRUE(url) << text << ": " << std::get<Problem>(parsed).text;
    EXPECT_EQ(url->host, expected.host) << text;
    EXPECT_EQ(url->port, expected.port) << text;
    EXPECT_EQ(url->prefix, expected.prefix) << text;
    EXPECT_EQ(url->authority, expected.authority) << text;
    EXPECT_EQ(url->tls, expected.tls) << text;
    EXPECT_EQ(url->unix_path, expected.unix_path) << text;
    const auto again = parse_replica_url(to_text(*url));
    ASSERT_TRUE(std::holds_alternative<ReplicaUrl>(again)) << to_text(*url);
    EXPECT_EQ(std::get<ReplicaUrl>(again), *url) << to_text(*url);
  }
}

TEST(ReplicaUrlText, IsRefusedWithTheReason) {
  constexpr auto scheme =
      "must begin with http://, https:// or unix:/, such as \"http://127.0.0.1:8001\" or \"unix:/run/vllm.sock\"";
  constexpr auto path =
      "must be unix: and the whole path of a socket, of at most 107 bytes, such as \"unix:/run/vllm.sock\"; no prefix "
      "can follow it";
  const std::string long_path = "unix:/" + std::string(107, 'x');
  constexpr auto https_base =
      "weir puts each request's own path, such as /v1/chat/completions, behind this; write the base url, "
      "\"https://h:443\"";
  constexpr auto https_shape = "must be https://HOST:PORT, with a path if need be, such as \"http://127.0.0.1:8001\"";
  constexpr auto user = "must hold no user name and no password; weir sends neither to a replica";
  constexpr auto query = "must hold no \"?\" and no \"#\"";
  constexpr auto host = "the host must be a name or an address, such as \"gpu-box\", \"10.0.0.7\" or \"[fd00::7]\"";
  constexpr auto port = "the port must be a whole number from 1 to 65535";
  constexpr auto shape = "must be http://HOST:PORT, with a path if need be, such as \"http://127.0.0.1:8001\"";
  const std::pair<const char*, const char*> table[] = {{"", scheme},
                                                       {"127.0.0.1:8001", scheme},
                                                       {"localhost:8001", scheme},
                                                       {"http:/h", scheme},
                                                       {"ftp://h", scheme},
                                                       {" http://h", scheme},
                                                       {"https://h:443/v1", https_base},
                                                       {"https://h /", https_shape},
                                                       {"unix:", path},
                                                       {"unix:a.sock", path},
                                                       {"unix://a.sock", path},
                                                       {"unix:/a/", path},
                                                       {"unix:/a\nb", path},
                                                       {long_path.c_str(), path},
                                                       {"UNIX:/a", scheme},
                                                       {"http://user@h", user},
                                                       {"http://user:secret@h:1", user},
                                                       {"http://h?x=1", query},
                                                       {"http://h/#", query},
                                                       {"http://", host},
                                                       {"http:///v1", host},
                                                       {"http://a%20b", host},
                                                       {"http://8001", host},
                                                       {"http://999.1.1.1:80", host},
                                                       {"http://127.1", host},
                                                       {"http://a,b", host},
                                                       {"http://[v1.x]", host},
                                                       {"http://h:", port},
                                                       {"http://h:0", port},
                                                       {"http://h:65536", port},
                                                       {"http://h:99999", port},
                                                       {"http://h:08001", port},
                                                       {"http://h:80x", port},
                                                       {"http://h /", shape},
                                                       {"http://h\r\nx", shape},
                                                       {"http://[::1", shape},
                                                       {"http://::1:80", host}};
  for (const auto& [text, expected] : table) {
    const auto parsed = parse_replica_url(text);
    const auto* problem = std::get_if<Problem>(&parsed);
    ASSERT_TRUE(problem) << text;
    EXPECT_EQ(problem->text, expected) << text;
  }
}

/// A user may write a url as clients want it (OpenAI's base_url); requests would then go to /v1/v1/chat/completions.
TEST(ReplicaUrlText, IsABaseUrlAndNotAnApi) {
  const std::pair<const char*, const char*> table[] = {{"http://127.0.0.1:8001/v1", "http://127.0.0.1:8001"},
                                                       {"http://GPU-Box:8001/v1/", "http://GPU-Box:8001"},
                                                       {"http://h/engines/a/v1", "http://h/engines/a"},
                                                       {"http://[::1]:8001/v1/chat/completions", "http://[::1]:8001"},
                                                       {"http://h/v1/completions", "http://h"}};
  for (const auto& [text, base] : table) {
    const auto parsed = parse_replica_url(text);
    const auto* problem = std::get_if<Problem>(&parsed);
    ASSERT_TRUE(problem) << text;
    EXPECT_EQ(problem->text,
              "weir puts each request's own path, such as /v1/chat/completions, behind this; write the base url, \"" +
                  std::string(base) + '"');
    EXPECT_TRUE(std::holds_alternative<ReplicaUrl>(parse_replica_url(base))) << base;
  }
}

TEST(ReplicaUrlText, IsShownWithoutCredentials) {
  EXPECT_EQ(without_credentials("http://user:secret@h:1/x"), "http://***@h:1/x");
  EXPECT_EQ(without_credentials("http://user:sec/ret@h"), "http://***@h");
  EXPECT_EQ(without_credentials("http://user:sec@ret@h"), "http://***@h");
  EXPECT_EQ(without_credentials("http://h:1/x"), "http://h:1/x");
  EXPECT_EQ(without_credentials("me@home"), "me@home");
  EXPECT_EQ(without_credentials("user:secret@h:1"), "***@h:1") << "the scheme was forgotten";
  EXPECT_EQ(without_credentials("http:/user:secret@h"), "***@h");
  EXPECT_EQ(without_credentials("user:secret@h://x"), "***@h://x");
  EXPECT_EQ(without_credentials("me@h://x"), "me@h://x");
  EXPECT_EQ(without_credentials("http://h:1/?key=secret"), "http://h:1/?***");
  EXPECT_EQ(without_credentials("http://h:1/v1#secret"), "http://h:1/v1#***");
  EXPECT_EQ(without_credentials("http://me:secret@h:1/x?key=secret"), "http://***@h:1/x?***");
  EXPECT_EQ(without_credentials("http://h/?key=sec@ret"), "http://***") << "either may be the secret";
  EXPECT_EQ(without_credentials("http://me:sec?ret@h"), "http://***");
  EXPECT_EQ(without_credentials("h:1/x?key=secret"), "h:1/x?***") << "the scheme was forgotten";
  EXPECT_EQ(without_credentials("/health?key=secret"), "/health?***");
  EXPECT_EQ(without_credentials("what?"), "what?");
  EXPECT_EQ(without_credentials("#1"), "#1");
  EXPECT_EQ(without_credentials(""), "");
}

}  // namespace
}  // namespace weir::config
