#include "proxy/serve/log_setup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>

namespace weir::proxy::serve {
namespace {

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
}  // namespace weir::proxy::serve
