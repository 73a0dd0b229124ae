#include "metrics/record/request_log.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "config/settings.hpp"
#include "tests/unit/metrics/record/sample_record.hpp"

namespace weir::metrics::record {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

/// Each test has a directory of its own, which is removed with it.
struct RequestLogTest : testing::Test {
  RequestLogTest() {
    std::string pattern = (fs::temp_directory_path() / "weir-log-XXXXXX").string();
    directory = ::mkdtemp(pattern.data());
  }
  ~RequestLogTest() override { fs::remove_all(directory); }

  static std::vector<json::object> lines_of(std::istream& in) {
    std::vector<json::object> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line).as_object());
    return lines;
  }
  std::vector<json::object> lines_of(const fs::path& name) const {
    std::ifstream file(name);
    return lines_of(file);
  }
  std::vector<json::object> lines() const { return lines_of(path()); }
  static std::vector<std::string> texts_of(const fs::path& name) {
    std::ifstream file(name);
    std::vector<std::string> texts;
    for (std::string line; std::getline(file, line);) texts.push_back(line);
    return texts;
  }
  /// Writes while no file may be longer than this.
  static void write_within(std::size_t bytes, RequestLog& log, const std::vector<RequestRecord>& records) {
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlimit lower{bytes, limit.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &lower), 0);
    for (const auto& record : records) log.write(record);
    log.flush();
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  std::string path() const { return (directory / "requests.jsonl").string(); }

  fs::path directory;
};

TEST_F(RequestLogTest, AppendsToWhatIsThere) {
  for (int i = 0; i < 2; ++i) RequestLog(path(), "weir-1").write(streamed());
  EXPECT_EQ(lines().size(), 2U);
}

TEST_F(RequestLogTest, BeginsANewLineAfterAWriteThatBrokeOff) {
  RequestLog log(path(), "weir-1");
  const RequestRecord record = streamed();
  const std::size_t length = log_line(record, "weir-1").size() + 1;
  write_within(length + length / 2, log, {record, record});
  log.write(record);
  log.flush();

  EXPECT_EQ(log.dropped(), 1U);
  const std::string whole = log_line(record, "weir-1");
  EXPECT_THAT(texts_of(path()), testing::ElementsAre(whole, whole.substr(0, length / 2), whole));
}

TEST_F(RequestLogTest, AfterAMoveAndAReopenLinesGoToTheNewFile) {
  RequestLog log(path(), "weir-1");
  const auto moved = path() + ".1";
  const auto numbered = [](int number) {
    RequestRecord record = streamed();
    record.id = std::to_string(number);
    return record;
  };
  // There is no flush in between, so the order of the calls alone decides.
  for (int i = 0; i < 500; ++i) log.write(numbered(i));
  fs::rename(path(), moved);
  for (int i = 500; i < 1000; ++i) log.write(numbered(i));
  EXPECT_EQ(log.reopen(), std::nullopt);
  for (int i = 1000; i < 1500; ++i) log.write(numbered(i));
  log.flush();
  EXPECT_EQ(log.dropped(), 0U);
  int next = 0;
  for (const auto& [name, end] : {std::pair{moved, 1000}, std::pair{path(), 1500}}) {
    for (const auto& line : texts_of(name)) EXPECT_EQ(line, log_line(numbered(next++), "weir-1"));
    EXPECT_EQ(next, end) << name;
  }
}

TEST_F(RequestLogTest, LosesAndTearsNoLineOverManyReopens) {
  constexpr int threads = 4, lines = 400, moves = 50;
  RequestLog log(path(), "weir-1");
  std::vector<std::jthread> writers;
  std::atomic<int> written = 0;
  for (int t = 0; t < threads; ++t) {
    writers.emplace_back([&] {
      for (int i = 0; i < lines; ++i, ++written) log.write(streamed());
    });
  }
  int files = 0;
  for (; files < moves; ++files) {
    fs::rename(path(), path() + "." + std::to_string(files));
    EXPECT_EQ(log.reopen(), std::nullopt);
  }
  writers.clear();
  log.flush();
  int whole = 0;
  const std::string line_of_all = log_line(streamed(), "weir-1");
  for (const auto& file : fs::directory_iterator(directory)) {
    for (const auto& line : texts_of(file.path())) EXPECT_EQ(line, line_of_all) << file.path();
    whole += static_cast<int>(texts_of(file.path()).size());
  }
  EXPECT_EQ(whole, threads * lines);
  EXPECT_EQ(log.dropped(), 0U);
}

TEST_F(RequestLogTest, KeepsTheOldFileWhereItCannotBeOpenedAgain) {
  RequestLog log(path(), "weir-1");
  const auto moved = path() + ".1";
  fs::rename(path(), moved);
  fs::create_directory(path());
  const auto problem = log.reopen();
  ASSERT_TRUE(problem.has_value());
  EXPECT_THAT(*problem, testing::AllOf(testing::HasSubstr(path()), testing::HasSubstr("Is a directory")));
  log.write(streamed());
  log.flush();
  EXPECT_EQ(log.dropped(), 0U);
  EXPECT_EQ(lines_of(moved).size(), 1U);
}

TEST_F(RequestLogTest, DoesNotWaitForTheReaderOfANamedPipe) {
  RequestLog log(path(), "weir-1");
  fs::remove(path());
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_TRUE(log.reopen().has_value());
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

TEST_F(RequestLogTest, StaysBoundedHoweverOftenItIsReopenedWhileItsWriterStands) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  const int reader = ::open(path().c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  std::optional<RequestLog> log(std::in_place, path(), "weir-1");
  constexpr std::size_t offered = 2 * RequestLog::queue_lines + 2000;
  const RequestRecord record;
  for (std::size_t i = 0; i < offered; ++i) log->write(record);
  const auto dropped = log->dropped();
  EXPECT_GE(dropped, offered - 2 * RequestLog::queue_lines - 100)
      << "held: a full queue, a batch in writing, and a pipe";
  const auto descriptors = open_descriptors();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(log->reopen(), std::nullopt);
    for (int j = 0; j < 10; ++j) log->write(record);
  }
  EXPECT_EQ(log->dropped(), dropped + 1000) << "the queue is full";
  EXPECT_LE(open_descriptors(), descriptors + 2);

  ASSERT_EQ(::fcntl(reader, F_SETFL, 0), 0);
  std::size_t received = 0;
  std::jthread drain([&] {
    std::vector<char> buffer(1 << 16);
    for (ssize_t n = 0; (n = ::read(reader, buffer.data(), buffer.size())) > 0;)
      received += static_cast<std::size_t>(std::count(buffer.begin(), buffer.begin() + n, '\n'));
  });
  log->flush();
  log->write(record);  // The log takes lines again.
  log->flush();
  const auto account = log->account();
  EXPECT_EQ(account.dropped, dropped + 1000);
  log.reset();
  drain.join();
  ::close(reader);
  EXPECT_EQ(received + account.dropped, offered + 1001);
  EXPECT_EQ(received, account.written);
}

TEST_F(RequestLogTest, APipeWithoutAReaderHoldsUpNobodyAndKeepsItsLines) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  std::optional<RequestLog> log(std::in_place, path(), "weir-1");
  EXPECT_TRUE(log->account().waits_for_reader);
  for (int i = 0; i < 10; ++i) log->write(streamed());
  const int reader = ::open(path().c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  log->flush();
  EXPECT_FALSE(log->account().waits_for_reader);
  EXPECT_EQ(log->account().written, 10u);
  log.reset();
  std::string text(1 << 16, '\0');
  const auto length = ::read(reader, text.data(), text.size());
  EXPECT_EQ(std::count(text.begin(), text.begin() + length, '\n'), 10);
  ::close(reader);
}

TEST_F(RequestLogTest, KeepsALineOfEachConnectionWhileItsWriterWaits) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  RequestLog log(path(), "weir-1");
  const RequestRecord record;
  for (std::size_t i = 0; i < config::Limits().connections; ++i) log.write(record);
  EXPECT_EQ(log.dropped(), 0u);
}

TEST_F(RequestLogTest, APipeWithoutAReaderGivesWayToAFileAndToTheEnd) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  {
    RequestLog log(path(), "weir-1");
    log.write(streamed());
    EXPECT_EQ(log.finish(std::chrono::minutes(1)), 0U) << "it waits no longer";
    EXPECT_EQ(log.dropped(), 1u);
    EXPECT_TRUE(log.account().waits_for_reader) << "that is why";
  }
  RequestLog log(path(), "weir-1");
  const auto file = (directory / "file.jsonl").string();
  log.write(streamed());
  EXPECT_EQ(log.change(file, "weir-1"), std::nullopt);
  log.write(streamed());
  log.flush();
  EXPECT_FALSE(log.account().waits_for_reader);
  EXPECT_EQ(log.account().written + log.account().dropped, 2u);
  EXPECT_EQ(lines_of(file).size(), 1u);
}

TEST_F(RequestLogTest, TellsWhyLinesAreLost) {
  RequestLog log("/dev/full", "weir-1");
  log.write(streamed());
  log.flush();
  EXPECT_EQ(log.account().error, ENOSPC);
  EXPECT_EQ(log.account().dropped, 1u);
  EXPECT_EQ(log.change(path(), "weir-1"), std::nullopt);
  log.write(streamed());
  log.flush();
  EXPECT_EQ(log.account().error, 0);
  EXPECT_EQ(log.account().written, 1u);
}

/// A key has to be revocable although the folder of the log cannot be written.
TEST_F(RequestLogTest, TakesAnotherNameThoughItsOwnPathCannotBeOpened) {
  RequestLog log(path(), "weir-1");
  const auto moved = path() + ".1";
  fs::rename(path(), moved);
  fs::create_directory(path());
  EXPECT_TRUE(log.change(path(), "weir-2").has_value());
  log.write(streamed());
  log.flush();
  const auto written = lines_of(moved);
  ASSERT_EQ(written.size(), 1u);
  EXPECT_EQ(text(written[0], "instance"), "weir-2");
}

TEST_F(RequestLogTest, FinishesByWritingWhatIsQueuedAndTakesNoMore) {
  RequestLog log(path(), "weir-1");
  for (int i = 0; i < 10; ++i) log.write(streamed());
  EXPECT_EQ(log.finish(std::chrono::minutes(1)), 0U);
  EXPECT_EQ(lines().size(), 10U);
  log.write(streamed());
  EXPECT_EQ(log.dropped(), 1U);
  EXPECT_EQ(log.finish(std::chrono::minutes(1)), 0U) << "once more";
  EXPECT_EQ(lines().size(), 10U);
}

TEST_F(RequestLogTest, EndsAlthoughNobodyReadsItsPipe) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  const int reader = ::open(path().c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  {
    RequestLog log(path(), "weir-1");
    for (int i = 0; i < 1000; ++i) log.write(streamed());  // A pipe holds 64 KiB.
    const auto lost = log.finish(std::chrono::milliseconds(20));
    EXPECT_GT(lost, 0U);
    EXPECT_LE(lost, 1000U);
  }
  ::close(reader);  // The writer that was left behind ends now.
}

TEST_F(RequestLogTest, HasNothingToReopenWhereItIsOffOrStandardOutput) {
  for (const auto* name : {"", "-"}) EXPECT_EQ(RequestLog(name, "weir-1").reopen(), std::nullopt);
}

TEST_F(RequestLogTest, ChangesItsFileAndName) {
  const auto other = (directory / "other.jsonl").string();
  RequestLog log(path(), "weir-1");
  log.write(streamed());
  EXPECT_EQ(log.change(other, "weir-2"), std::nullopt);
  log.write(streamed());
  log.flush();
  ASSERT_EQ(lines().size(), 1U);
  EXPECT_EQ(text(lines()[0], "instance"), "weir-1");
  const auto there = lines_of(other);
  ASSERT_EQ(there.size(), 1U);
  EXPECT_EQ(text(there[0], "instance"), "weir-2");
  EXPECT_EQ(log.reopen(), std::nullopt) << "of the file that it has now";
  fs::remove(other);
  EXPECT_EQ(log.reopen(), std::nullopt);
  EXPECT_TRUE(fs::exists(other));
}

TEST_F(RequestLogTest, IsSwitchedOffAndOn) {
  RequestLog log(path(), "weir-1");
  EXPECT_EQ(log.change("", "weir-1"), std::nullopt);
  log.write(streamed());
  EXPECT_EQ(log.change(path(), "weir-1"), std::nullopt);
  log.write(streamed());
  log.flush();
  EXPECT_EQ(lines().size(), 1U);
  EXPECT_EQ(log.dropped(), 0U) << "what is not wanted is not lost";
}

TEST_F(RequestLogTest, KeepsFileAndNameWhereTheOtherFileCannotBeOpened) {
  RequestLog log(path(), "weir-1");
  const auto problem = log.change((directory / "no" / "such").string(), "weir-2");
  ASSERT_TRUE(problem.has_value());
  EXPECT_NE(problem->find("cannot open the request log"), std::string::npos) << *problem;
  log.write(streamed());
  log.flush();
  ASSERT_EQ(lines().size(), 1U);
  EXPECT_EQ(text(lines()[0], "instance"), "weir-1");
}

/// A write breaks off, with a reopen in between. In the same file the cut line ends before the next.
TEST_F(RequestLogTest, AnUnfinishedLineStaysAloneOverAReopen) {
  for (const bool move : {false, true}) {
    RequestLog log(path(), "weir-1");
    const RequestRecord record = streamed();
    const std::size_t length = log_line(record, "weir-1").size() + 1;
    write_within(length / 2, log, {record});
    if (move) fs::rename(path(), path() + ".1");
    EXPECT_EQ(log.reopen(), std::nullopt);
    log.write(record);
    log.flush();
    const std::string whole = log_line(record, "weir-1");
    if (move) {
      EXPECT_THAT(texts_of(path()), testing::ElementsAre(whole));
    } else {
      EXPECT_THAT(texts_of(path()), testing::ElementsAre(whole.substr(0, length / 2), whole));
    }
    fs::remove(path());
  }
}

TEST_F(RequestLogTest, WritesToStandardOutput) {
  testing::internal::CaptureStdout();
  RequestLog log("-", "weir-1");
  log.write(streamed());
  log.flush();
  std::istringstream out(testing::internal::GetCapturedStdout());
  EXPECT_EQ(lines_of(out).size(), 1U);
}

TEST_F(RequestLogTest, SaysWhichFileItCannotOpenAndWhy) {
  const std::string missing = (directory / "no" / "such.jsonl").string();
  try {
    RequestLog log(missing, "weir-1");
    FAIL() << "opened " << missing;
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(missing));
    EXPECT_THAT(error.what(), testing::HasSubstr("No such file or directory"));
  }
}

}  // namespace
}  // namespace weir::metrics::record
