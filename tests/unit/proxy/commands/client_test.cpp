// How the commands of the program ask a weir, and what they say where none answers.
#include "proxy/commands/client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <thread>

#include "tests/unit/proxy/net/loopback_listener.hpp"

namespace weir::proxy::commands {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Takes a request, and answers it with these bytes.
class Listener {
 public:
  explicit Listener(std::string answer) : answer_(std::move(answer)) {}
  ~Listener() { ::shutdown(listener_.fd.get(), SHUT_RDWR); }

  Admin admin() const { return {{"127.0.0.1", listener_.endpoint.port(), ""}, "secret"}; }
  /// Returns the request, once it has been answered.
  std::string request() {
    thread_.join();
    return request_;
  }

 private:
  void serve() {
    const net::UniqueFd client(::accept(listener_.fd.get(), nullptr, nullptr));
    if (!client) return;
    std::array<char, 4096> bytes;
    const auto size = ::recv(client.get(), bytes.data(), bytes.size(), 0);
    if (size > 0) request_.assign(bytes.data(), static_cast<std::size_t>(size));
    ::send(client.get(), answer_.data(), answer_.size(), MSG_NOSIGNAL);
  }

  net::LoopbackListener listener_;
  const std::string answer_;
  std::string request_;
  std::jthread thread_{[this] { serve(); }};
};

std::string why_none(const Admin& admin) {
  try {
    ask_admin(admin, "GET", "/api/live");
  } catch (const NoWeir& nobody) {
    return nobody.what();
  }
  return "";
}

TEST(AskAdmin, AnErrorSteersNoTerminal) {
  EXPECT_EQ(error_message({400, R"({"error":{"message":"a\u001b]0;x\u0007b\nc\u007f"}})"}), "a?]0;x?b\nc?");
}

TEST(AskAdmin, ReturnsStatusAndBody) {
  Listener weir("HTTP/1.1 409 Conflict\r\ncontent-length: 31\r\n\r\n{\"error\":{\"message\":\"not now\"}}");
  const auto answered = ask_admin(weir.admin(), "POST", "/-/reload", "{}");
  EXPECT_EQ(answered.status, 409u);
  EXPECT_EQ(error_message(answered), "not now");
  EXPECT_THROW(body_of(answered), std::runtime_error);
  EXPECT_THAT(weir.request(), AllOf(StartsWith("POST /-/reload HTTP/1.1\r\n"), HasSubstr("Bearer secret\r\n"),
                                    HasSubstr("content-type: application/json\r\n"), HasSubstr("\r\n\r\n{}")));
}

TEST(AskAdmin, SaysThatNoWeirAnswers) {
  const Admin nobody{{"127.0.0.1", net::refusing().port(), ""}};
  EXPECT_THAT(why_none(nobody),
              AllOf(StartsWith("no weir answers at 127.0.0.1:"), HasSubstr(": Connection refused; ")));
  EXPECT_THAT(why_none({{"", 0, "/nonexistent/admin"}}),
              StartsWith("no weir answers at unix:/nonexistent/admin: No such file or directory; "));
  EXPECT_THAT(why_none(Listener("").admin()), HasSubstr("it closes the connection without an answer"));
  for (const auto* const greeting : {"SSH-2.0-OpenSSH_9.2\r\n", "220 smtp ready\r\n", "HTTP/2 200\r\n", "H\r\n", "x"})
    EXPECT_THAT(why_none(Listener(greeting).admin()), HasSubstr("it does not answer in HTTP/1.1")) << greeting;
}

}  // namespace
}  // namespace weir::proxy::commands
