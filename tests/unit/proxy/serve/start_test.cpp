#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "proxy/serve/start.hpp"

namespace weir::proxy::serve {
namespace {

config::Settings settings() {
  config::Settings settings;
  config::Pool chat;
  chat.name = "chat";
  for (const std::string name : {"gpu0", "gpu1"}) {
    config::Replica replica;
    replica.name = name;
    replica.url = {"10.0.0.1", 8000, "/" + name, "10.0.0.1:8000"};
    replica.config = "vllm-fp16";
    chat.replicas.push_back(replica);
  }
  config::Pool small = chat;
  small.name = "small";
  small.models = {"qwen", "phi"};
  small.policy = config::Policy::round_robin;
  small.replicas.resize(1);
  settings.pools = {chat, small};
  return settings;
}

TEST(Announcement, NamesPoolsAndReplicas) {
  EXPECT_THAT(
      start_lines(settings(), "1.2.3", 4),
      testing::ElementsAre("weir 1.2.3 starts with 4 loops", "pool 'chat': any model, least_queued_tokens, 2 replicas",
                           "replica 'gpu0' of pool 'chat': http://10.0.0.1:8000/gpu0, config 'vllm-fp16'",
                           "replica 'gpu1' of pool 'chat': http://10.0.0.1:8000/gpu1, config 'vllm-fp16'",
                           "pool 'small': models qwen, phi, round_robin, 1 replica",
                           "replica 'gpu0' of pool 'small': http://10.0.0.1:8000/gpu0, config 'vllm-fp16'",
                           "request log: requests.jsonl"));
}

TEST(Announcement, SaysWhichShadowCanCarryAVerdict) {
  auto some = settings();
  config::Shadow twin;
  twin.name = "fp8";
  twin.of = "chat";
  twin.twin = "gpu0";
  auto share = twin;
  share.name = "share";
  share.twin.clear();
  share.sample = 0.1;
  some.shadows = {twin, share};
  EXPECT_THAT(shadow_lines(some),
              testing::ElementsAre("shadow 'fp8' of pool 'chat': a twin of 'gpu0'; its latencies can carry a verdict, "
                                   "against 'gpu0'",
                                   "shadow 'share' of pool 'chat': a sample of 10 %; its load differs from its "
                                   "primaries', so its latencies carry no verdict (only a twin's do)"));
  auto same = twin;
  same.name = "same";
  same.control = true;
  auto of_another = same;
  of_another.name = "other";
  of_another.twin = "gpu1";
  some.shadows = {twin, of_another};
  EXPECT_THAT(shadow_lines(some).front(), testing::EndsWith("against 'gpu0'"));
  some.shadows = {twin, same};
  EXPECT_THAT(shadow_lines(some),
              testing::ElementsAre(testing::EndsWith("against the control 'same'"),
                                   "shadow 'same' of pool 'chat': the control of the twins of 'gpu0'"));
}

TEST(Announcement, NamesListeners) {
  auto some = settings();
  some.server.listen = {{"127.0.0.1", 8080}, {"::1", 80}};
  EXPECT_THAT(
      listening_lines(some),
      testing::ElementsAre("serving on http://127.0.0.1:8080", "serving on http://[::1]:80",
                           "metrics on http://127.0.0.1:9090/metrics", "admin on http://127.0.0.1:9091/api/live"));
  auto by_path = some;
  by_path.server.listen.front() = {"", 0, "/run/weir/weir.sock"};
  by_path.admin.listen = config::ListenAddress{"", 0, "/run/weir/admin.sock"};
  EXPECT_EQ(listening_lines(by_path).front(), "serving on unix:/run/weir/weir.sock");
  EXPECT_EQ(listening_lines(by_path).back(), "admin on unix:/run/weir/admin.sock");
  some.metrics.listen.reset();
  EXPECT_THAT(listening_lines(some),
              testing::ElementsAre(testing::StartsWith("serving"), testing::StartsWith("serving"),
                                   testing::StartsWith("admin")));
  some.admin.listen.reset();
  EXPECT_EQ(listening_lines(some).size(), 2U);
}

using testing::EndsWith;
using testing::MatchesRegex;

const std::string time_with_zone = "[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\\.[0-9]+[+-][0-9]+:[0-9]+";

std::string logged(config::LogFormat format, spdlog::level::level_enum level, const std::string& message) {
  std::ostringstream out;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(out);
  spdlog::logger logger("test", sink);
  logger.set_formatter(log_formatter(format));
  logger.set_level(spdlog::level::trace);
  logger.log(level, message);
  return out.str();
}

TEST(LogFormatter, TextHasTimeZoneAndLevel) {
  EXPECT_THAT(logged(config::LogFormat::text, spdlog::level::warn, "it is \"so\""),
              MatchesRegex("\\[" + time_with_zone + "\\] \\[warning\\] it is \"so\"\n"));
}

TEST(LogFormatter, JsonIsOneObjectALineWhateverTheMessage) {
  const std::pair<std::string, std::string> cases[]{
      {"serving", R"("serving")"},
      {"a \"quote\" and \\", R"("a \"quote\" and \\")"},
      {"two\nlines\tand \x01", R"("two\nlines\tand \u0001")"},
      {"%v %l {} \xc3\xa9", "\"%v %l {} \xc3\xa9\""},
      {"broken \xff", "\"broken \xef\xbf\xbd\""},
      {"", R"("")"},
  };
  for (const auto& [message, json] : cases) {
    const auto line = logged(config::LogFormat::json, spdlog::level::info, message);
    EXPECT_THAT(line, EndsWith("\",\"level\":\"info\",\"message\":" + json + "}\n"));
    EXPECT_THAT(line.substr(0, line.find(",\"level")), MatchesRegex("\\{\"time\":\"" + time_with_zone + "\""));
  }
}

/// Returns the ids and the instances of a request log's lines.
std::string told_by(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string all;
  for (std::string line; std::getline(file, line);)
    for (const std::string name : {"\"id\":\"", "\"instance\":\""}) {
      const auto begin = line.find(name) + name.size();
      all += line.substr(begin, line.find('"', begin) - begin) + " ";
    }
  return all;
}

TEST(AdoptWithLogs, AnAdoptionThatFailsLeavesBothLogsAsTheyWere) {
  namespace fs = std::filesystem;
  const auto level_before = spdlog::get_level();
  for (const bool fails : {false, true})
    for (const bool other_path : {false, true})
      for (const bool folder_gone : {false, true}) {
        SCOPED_TRACE(testing::Message() << "fails " << fails << ", other path " << other_path << ", folder gone "
                                        << folder_gone);
        auto pattern = (fs::temp_directory_path() / "weir-logs-XXXXXX").string();
        const fs::path directory = ::mkdtemp(pattern.data());
        fs::create_directory(directory / "folder");
        config::Log before, after;
        before.requests = directory / "folder" / "old";
        before.instance = "one";
        before.level = config::LogLevel::error;
        after.requests = other_path ? (directory / "new").string() : before.requests;
        after.instance = "two";
        after.level = config::LogLevel::warning;
        change_log(before);
        metrics::record::RequestLog log(before.requests, before.instance);
        const auto write = [&log](const std::string& id) {
          metrics::record::RequestRecord record;
          record.id = id;
          log.write(record);
        };
        write("a");
        log.flush();
        if (folder_gone) fs::rename(directory / "folder", directory / "gone");
        std::string error;
        try {
          const auto errors = adopt_with_logs(log, before, after, [&] {
            write("b");
            if (fails) throw std::runtime_error("no adoption");
          });
          EXPECT_THAT(errors, testing::IsEmpty());
        } catch (const std::runtime_error& thrown) {
          error = thrown.what();
        }
        write("c");
        log.flush();
        EXPECT_EQ(error, fails ? "no adoption" : "");
        EXPECT_EQ(spdlog::get_level(), fails ? spdlog::level::err : spdlog::level::warn);
        const auto old_lines = told_by(directory / (folder_gone ? "gone" : "folder") / "old");
        if (fails) {
          EXPECT_EQ(old_lines, "a one b one c one ");
        } else {
          EXPECT_EQ(old_lines + told_by(directory / "new"), "a one b one c two ");
          EXPECT_EQ(told_by(directory / "new"), other_path ? "c two " : "");
        }
        fs::remove_all(directory);
      }
  spdlog::set_level(level_before);
}

TEST(AdoptWithLogs, ARequestLogThatCannotBeOpenedElsewhereStopsTheAdoption) {
  metrics::record::RequestLog log("", "one");
  config::Log before, after;
  before.requests = "";
  after.requests = "/nowhere/requests.jsonl";
  EXPECT_THAT(adopt_with_logs(log, before, after, [] { ADD_FAILURE() << "it is adopted"; }),
              testing::ElementsAre(testing::StartsWith("log.requests: cannot open")));
}

}  // namespace

// Weir tells systemd how it is. The tests read that as systemd does.

namespace {

using ::testing::MatchesRegex;

/// Listens as systemd does, on a name in the abstract namespace.
class Manager {
 public:
  Manager() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name_.data(), name_.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    ::setenv("NOTIFY_SOCKET", ("@" + name_).c_str(), 1);
  }
  std::string told() const {
    std::array<char, 512> text{};
    const auto size = ::recv(fd_.get(), text.data(), text.size(), MSG_DONTWAIT);
    return size < 0 ? "nothing" : std::string(text.data(), static_cast<std::size_t>(size));
  }

 private:
  const std::string name_ = "weir-test-" + std::to_string(::getpid());
  const net::UniqueFd fd_{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

TEST(ServiceManager, IsToldHowWeirIs) {
  const Manager manager;
  const ServiceManager weir;
  EXPECT_EQ(std::getenv("NOTIFY_SOCKET"), nullptr) << "no child of weir's speaks for it";
  weir.ready("serving");
  EXPECT_EQ(manager.told(), "READY=1\nSTATUS=serving");
  weir.reloading();
  EXPECT_THAT(manager.told(), MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+\nSTATUS=reloading"));
  weir.stopping("draining");
  EXPECT_EQ(manager.told(), "STOPPING=1\nSTATUS=draining");
  weir.status("x");
  EXPECT_EQ(manager.told(), "STATUS=x");
}

TEST(ServiceManager, ThatIsNotThereIsToldNothing) {
  const Manager other;
  for (const auto& address : {std::string(), std::string("/nowhere/at/all"), std::string(500, 'x')}) {
    ::setenv("NOTIFY_SOCKET", address.c_str(), 1);
    ServiceManager().ready("serving");
    EXPECT_EQ(other.told(), "nothing");
  }
}

TEST(InheritedSockets, AreThoseOfThisProcessAlone) {
  ::setenv("LISTEN_PID", "1", 1);
  ::setenv("LISTEN_FDS", "1", 1);
  EXPECT_TRUE(take_inherited_sockets().empty());
  EXPECT_EQ(std::getenv("LISTEN_FDS"), nullptr);
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  ::setenv("LISTEN_FDS", "none", 1);
  EXPECT_TRUE(take_inherited_sockets().empty());
}

}  // namespace
}  // namespace weir::proxy::serve
