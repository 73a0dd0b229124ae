// Connections to the listeners of operators, over a pair of sockets.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <cerrno>
#include <set>
#include <string>
#include <string_view>

#include "proxy/admin/admin.hpp"

namespace weir::proxy::admin {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string healthy = "GET /-/healthy HTTP/1.1\r\nHost: a\r\n\r\n";

/// An operator's end of a connection.
struct Operator {
  void sends(const std::string& bytes) const {
    EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  /// Reads what is there.
  void look() {
    std::array<char, 4096> bytes;
    ssize_t size = 0;
    while ((size = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT)) > 0)
      got.append(bytes.data(), static_cast<std::size_t>(size));
    over = over || size == 0 || errno == ECONNRESET;
  }
  std::size_t answers() const {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = got.find("HTTP/1.1 200 ", at)) != got.npos; ++at) ++count;
    return count;
  }
  net::UniqueFd socket;
  std::string got;
  bool over = false;
};

class AdminConnections : public ::testing::Test {
 protected:
  Operator connect(AdminScope scope = AdminScope::metrics) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    EXPECT_EQ(::fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    start_admin_session(context, net::UniqueFd(ends[0]), scope, sources);
    Operator one;
    one.socket.reset(ends[1]);
    return one;
  }
  /// Lets all happen that can happen without a deadline.
  void run(Operator& one) {
    while (context.poll() > 0) {
    }
    one.look();
  }

  boost::asio::io_context context{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{context.get_executor()};
  metrics::series::Exposition exposition{1, {"test", "test"}};
  fleet::Fleet fleet{{}, exposition, 1};
  metrics::record::RequestLog log{"", "weir"};
  History history{log};
  SlowAnswers slow_answers{context};
  Reload reload{context,
                {},
                [] { return config::LoadResult(config::Settings()); },
                [](const auto&) { return Reload::Keys(); },
                [](const auto&, const auto&) { return std::vector<std::string>(); },
                [](const auto&) {}};
  std::atomic<bool> bypass{false};
  Rollouts rollouts{context, fleet, history, slow_answers, {}};
  live::Live live{fleet,
                  exposition,
                  1,
                  [] { return live::Surroundings(); },
                  std::chrono::steady_clock::now(),
                  std::chrono::system_clock::now()};
  AdminSources sources{
      exposition, fleet, reload, history, slow_answers, rollouts, live, bypass, [] { return std::string(); }};
};

TEST_F(AdminConnections, GoOnWithOneRequestAfterAnother) {
  auto one = connect();
  for (std::size_t asked = 1; asked <= 100; ++asked) {
    one.sends(healthy);
    run(one);
    ASSERT_EQ(one.answers(), asked);
    ASSERT_FALSE(one.over);
  }
  EXPECT_THAT(one.got, Not(HasSubstr("Connection: close")));
}

TEST_F(AdminConnections, WithRequestsAheadOfTheirAnswersEndAfterOne) {
  for (const auto scope : {AdminScope::metrics, AdminScope::admin}) {
    for (const std::size_t ahead : {2u, 3u, 500u}) {
      auto one = connect(scope);
      std::string requests;
      for (std::size_t i = 0; i < ahead; ++i) requests += healthy;
      one.sends(requests);
      run(one);
      EXPECT_EQ(one.answers(), 1u) << "the control thread works for nobody longer than for one answer";
      EXPECT_THAT(one.got, HasSubstr("Connection: close"));
      EXPECT_TRUE(one.over);
    }
  }
  EXPECT_EQ(sources.metrics_places->size() + sources.admin_places->size(), 0u);
}

/// The status of the answer to a request, and its body.
struct AdminAnswer {
  std::string status, body, allowed;
};

class AdminRoutes : public AdminConnections {
 protected:
  AdminAnswer ask(const std::string& method, const std::string& path, AdminScope scope = AdminScope::admin) {
    auto one = connect(scope);
    one.sends(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n");
    run(one);
    AdminAnswer answered{one.got.substr(9, 3), one.got.substr(one.got.find("\r\n\r\n") + 4), ""};
    if (const auto allow = one.got.find("Allow: "); allow != one.got.npos)
      answered.allowed = one.got.substr(allow + 7, one.got.find("\r\n", allow) - allow - 7);
    return answered;
  }
};

TEST_F(AdminRoutes, AreListedToWhoAsksForAnother) {
  EXPECT_EQ(
      ask("GET", "/metric").body,
      "known here: / /metrics /-/healthy /-/ready /api/live /api/live/stream /api/live/window "
      "/api/events /api/report /api/settings /api/compare /api/gate /api/rollout, and by POST "
      "/api/rollout/NAME/start /api/rollout/NAME/pause /api/rollout/NAME/promote /api/rollout/NAME/abort /-/reload "
      "/api/replicas/NAME/drain /api/replicas/NAME/undrain /api/shadow/NAME/on /api/shadow/NAME/off "
      "/api/bypass/on /api/bypass/off\n");
  EXPECT_EQ(ask("GET", "/api/replicas", AdminScope::metrics).body,
            "known here: /metrics /-/healthy /-/ready /api/gate\n");
}

TEST_F(AdminRoutes, TakeTheirMethods) {
  live.tick("", std::chrono::steady_clock::now(), std::chrono::system_clock::now());
  for (const auto* path : {"/metrics", "/-/healthy", "/-/ready?x", "/api/settings", "/api/rollout", "/api/live",
                           "/api/live/window", "/api/events", "/api/report"}) {
    EXPECT_EQ(ask("GET", path).status, "200") << path;
    EXPECT_EQ(ask("HEAD", path).body, "") << path;
    EXPECT_EQ(ask("POST", path).status, "405") << path;
    EXPECT_EQ(ask("POST", path).allowed, "GET, HEAD") << path;
  }
  for (const auto* path :
       {"/api/bypass/on", "/api/bypass/off", "/api/shadow/a/on", "/api/replicas/a/drain", "/-/reload"})
    for (const auto* method : {"GET", "PUT"}) {
      EXPECT_EQ(ask(method, path).status, "405") << path;
      EXPECT_EQ(ask(method, path).allowed, "POST") << path;
      EXPECT_EQ(ask(method, path, AdminScope::metrics).status, *method == 'G' ? "404" : "405") << path;
    }
  EXPECT_EQ(ask("PUT", "/api/gate").allowed, "GET, HEAD, POST");
  EXPECT_EQ(ask("POST", "/api/bypass/on").body, "{\"bypass\":true,\"changed\":true}\n");
  EXPECT_EQ(ask("POST", "/api/bypass/off").body, "{\"bypass\":false,\"changed\":true}\n");
  for (const auto* other : {"/api/bypass", "/api/bypass/", "/api/bypass/ON", "/api/bypass/on/", "/-/reload/"})
    EXPECT_EQ(ask("GET", other).status, "404") << other;
}

TEST_F(AdminRoutes, FindTheNameBetweenTheirParts) {
  EXPECT_THAT(ask("POST", "/api/shadow/candidate/on").body, HasSubstr("no shadow is named 'candidate'"));
  EXPECT_THAT(ask("POST", "/api/shadow//off").body, HasSubstr("no shadow is named ''"));
  EXPECT_THAT(ask("POST", "/api/replicas/a/b/drain").body, HasSubstr("no replica is named 'a/b'"));
  for (const auto* other : {"/api/shadow/on", "/api/shadow/off", "/api/replicas/drain", "/api/replicas/undrain"})
    EXPECT_EQ(ask("GET", other).status, "404") << other;
}

TEST_F(AdminRoutes, HaveThePageOnTheAdminListenerAlone) {
  for (const auto& file : live::page::files()) {
    const std::string path(file.path);
    EXPECT_EQ(ask("GET", path).status, "200") << path;
    EXPECT_EQ(ask("HEAD", path).body, "") << path;
    EXPECT_EQ(ask("POST", path).status, "405") << path;
    EXPECT_EQ(ask("GET", path, AdminScope::metrics).status, "404") << path;
  }
  for (const auto* other : {"/page", "/page/", "/page/none.js", "/page/../page/main.js", "/index.html"})
    EXPECT_EQ(ask("GET", other).status, "404") << other;
}

TEST_F(AdminRoutes, SendThePageWithWhatGuardsItAndOnlyOnce) {
  auto one = connect(AdminScope::admin);
  one.sends("GET / HTTP/1.1\r\nHost: any\r\n\r\n");
  run(one);
  for (const auto& [name, value] : page_fields)
    EXPECT_THAT(one.got, HasSubstr(std::string(name) + ": " + std::string(value) + "\r\n"));
  const auto begin = one.got.find("ETag: ") + 6;
  const auto tag = one.got.substr(begin, one.got.find("\r\n", begin) - begin);
  auto again = connect(AdminScope::admin);
  again.sends("GET / HTTP/1.1\r\nHost: any\r\nIf-None-Match: \"x\", " + tag + "\r\n\r\n");
  run(again);
  EXPECT_THAT(again.got, StartsWith("HTTP/1.1 304 "));
  EXPECT_THAT(again.got, EndsWith("\r\n\r\n"));
}

TEST_F(AdminRoutes, AreKeptByNobodyAndReadAsNothingElse) {
  live.tick("", std::chrono::steady_clock::now(), std::chrono::system_clock::now());
  for (const auto* path :
       {"/api/live", "/api/report", "/api/report?format=json", "/metrics", "/nowhere", "/api/live/stream"}) {
    auto one = connect(AdminScope::admin);
    one.sends("GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    run(one);
    EXPECT_THAT(one.got, HasSubstr("Cache-Control: no-store\r\n")) << path;
    EXPECT_THAT(one.got, HasSubstr("X-Content-Type-Options: nosniff\r\n")) << path;
    EXPECT_THAT(one.got, HasSubstr("Content-Security-Policy: default-src 'none'; ")) << path;
    EXPECT_THAT(one.got, HasSubstr("frame-ancestors 'none'")) << path;
    const bool runs_scripts = one.got.find("sandbox allow-scripts") != one.got.npos;
    EXPECT_EQ(runs_scripts, std::string_view(path) == "/api/report") << "apart from the origin of the page";
  }
}

class AdminTokens : public AdminConnections {
 protected:
  AdminTokens() {
    config::Settings settings;
    settings.admin.token = "right";
    fleet.adopt(settings, fleet.prepare(settings), fleet.keys_of(settings.server));
  }
  Operator ask(const std::string& token) {
    auto one = connect(AdminScope::admin);
    const auto field = token.empty() ? "" : "Authorization: Bearer " + token + "\r\n";
    one.sends("GET /api/settings HTTP/1.1\r\nHost: any\r\n" + field + "\r\n");
    run(one);
    return one;
  }
  std::uint64_t refused(metrics::series::OperatorRefusal why) { return exposition.operator_refusals.value(why); }
};

TEST_F(AdminTokens, ThatAreWrongAreCountedAndSlowTheirAddress) {
  using metrics::series::OperatorRefusal;
  EXPECT_THAT(ask("right").got, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(ask("").got, StartsWith("HTTP/1.1 401 "));
  // Some of the ten are forgiven meanwhile.
  const auto slowed = [this] { return sources.wrong_tokens.slows({}, std::chrono::steady_clock::now()); };
  std::uint64_t tried = 0;
  for (; !slowed(); ++tried) EXPECT_THAT(ask("wrong").got, StartsWith("HTTP/1.1 401 "));
  EXPECT_EQ(refused(OperatorRefusal::no_token), 1u);
  EXPECT_EQ(refused(OperatorRefusal::wrong_token), tried);
  EXPECT_GE(tried, 10u);
  sources.wrong_tokens.add({}, std::chrono::steady_clock::now());
  sources.wrong_tokens.add({}, std::chrono::steady_clock::now());
  std::vector<Operator> waiting;
  for (std::size_t i = 0; i < WrongTokens::most_waiting; ++i) {
    waiting.push_back(ask(i % 2 == 0 ? "wrong" : "right"));
    EXPECT_EQ(waiting.back().got, "") << "nobody learns at once whether it was the right one";
  }
  EXPECT_EQ(sources.wrong_tokens.waiting, WrongTokens::most_waiting);
  EXPECT_THAT(ask("right").got, StartsWith("HTTP/1.1 429 "));
  EXPECT_EQ(refused(OperatorRefusal::too_many), 1u);
  EXPECT_THAT(ask("").got, StartsWith("HTTP/1.1 401 ")) << "that tries none";
  // Each wait ends by itself.
  while (sources.wrong_tokens.waiting > 0) context.run_one();
  run(waiting[1]);
  EXPECT_THAT(waiting[1].got, StartsWith("HTTP/1.1 200 "));
  run(waiting[0]);
  EXPECT_THAT(waiting[0].got, StartsWith("HTTP/1.1 401 "));
}

TEST(PageFiles, HaveAPathATypeATagAndAText) {
  std::set<std::string_view> paths, tags;
  for (const auto& file : live::page::files()) {
    EXPECT_TRUE(file.path == "/" || file.path.starts_with("/page/")) << file.path;
    EXPECT_FALSE(file.content_type.empty()) << file.path;
    EXPECT_TRUE(file.tag.starts_with("W/\"") && file.tag.ends_with('"')) << file.tag;
    EXPECT_FALSE(file.text.empty()) << file.path;
    EXPECT_EQ(page_file(file.path), &file);
    paths.insert(file.path);
    tags.insert(file.tag);
  }
  EXPECT_EQ(paths.size(), live::page::files().size());
  EXPECT_EQ(tags.size(), paths.size());
  EXPECT_EQ(page_file("/page/none"), nullptr);
  EXPECT_EQ(page_file(""), nullptr);
}

/// Whatever a file names of the page is there: a module that is missing leaves an empty page.
TEST(PageFiles, NameOnlyWhatIsThere) {
  for (const auto& file : live::page::files()) {
    if (file.path != "/" && (!file.path.ends_with(".js") || file.path == "/page/uplot.js")) continue;
    for (const std::string before : {"\"/page/", "from \"./"}) {
      for (auto at = file.text.find(before); at != file.text.npos; at = file.text.find(before, at + 1)) {
        const auto begin = at + before.size();
        const auto name = file.text.substr(begin, file.text.find('"', begin) - begin);
        EXPECT_NE(page_file("/page/" + std::string(name)), nullptr) << file.path << " names " << name;
      }
    }
  }
}

TEST(PageFiles, AreKnownToAClientByTheirTag) {
  const std::string_view tag = "W/\"abc\"";
  for (const auto* field :
       {"W/\"abc\"", "\"abc\"", "*", " W/\"abc\" ", "\"x\", W/\"abc\"", "W/\"abc\",\"x\"", ",,\"abc\""})
    EXPECT_TRUE(names_tag(field, tag)) << field;
  for (const auto* field : {"", "abc", "\"ab\"", "\"abcd\"", "W/abc", "\"ABC\"", ",", "W/", "\"x\",\"y\""})
    EXPECT_FALSE(names_tag(field, tag)) << field;
}

}  // namespace
}  // namespace weir::proxy::admin
