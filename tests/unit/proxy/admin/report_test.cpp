// The report of the last minutes, and the recorder that writes it by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "../said.hpp"
#include "proxy/admin/api.hpp"
#include "proxy/admin/live_api.hpp"
#include "proxy/admin/report.hpp"
#include "proxy/commands/commands.hpp"

namespace weir::proxy::admin {
namespace {

namespace json = boost::json;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ReportCommand, WritesOverNoTokenFile) {
  const auto file = std::filesystem::temp_directory_path() / ("weir-report-token-" + std::to_string(::getpid()));
  std::ofstream{file} << "sesame\n";
  commands::ReportOptions options;
  options.admin.token_file = options.output = file.string();
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(commands::report(options), 1);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("holds the token, which would be lost"));
  std::filesystem::remove(file);
}

config::Settings settings_with(std::size_t replicas) {
  config::Pool pool;
  pool.name = "chat";
  for (std::size_t i = 0; i < replicas; ++i) {
    auto& one = pool.replicas.emplace_back();
    one.name = one.config = "gpu" + std::to_string(i);
    one.url = {.host = "127.0.0.1", .port = 1, .prefix = "", .authority = "127.0.0.1:1"};
  }
  config::Settings settings;
  settings.pools = {pool};
  settings.admin.token = "sesame";
  return settings;
}

class Report : public ::testing::Test {
 protected:
  Report() { std::filesystem::create_directories(folder); }
  ~Report() override { std::filesystem::remove_all(folder); }

  void second() {
    now += seconds(1);
    time += seconds(1);
    live.tick("one", now, time);
  }
  /// Takes what the thread of slow answers has made.
  void finish() {
    const auto work = boost::asio::make_work_guard(context);
    for (context.restart(); slow.under_way() > 0;) context.run_one();
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) all.push_back(entry.path().filename());
    std::ranges::sort(all);
    return all;
  }

  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("weir-reports-" + std::to_string(::getpid()));
  Said said;
  const config::Settings settings = settings_with(2);
  metrics::series::Exposition exposition{1, {"0.1", "test"}, {}};
  fleet::Fleet fleet{settings, exposition, 1};
  live::Surroundings around;
  metrics::Moment now = std::chrono::steady_clock::now();
  live::Wall time = live::Wall() + seconds(1'764'000'000);
  live::Live live{fleet, exposition, 1, [this] { return around; }, now, time};
  boost::asio::io_context context;
  SlowAnswers slow{context};
  Recorder recorder{live, slow,
                    [this](std::string_view because) { return report_data(live, settings, longest_report, because); }};
};

TEST_F(Report, HasAllThatIsKnownAndNoSecret) {
  EXPECT_EQ(report_data(live, settings, longest_report, "nothing"), "") << "before the first second";
  for (int i = 0; i < 30; ++i) second();
  const auto text = report_data(live, settings, minutes(15), "a </script> \"reason\"");
  EXPECT_THAT(text, Not(HasSubstr("sesame")));
  const auto all = json::parse(text);
  EXPECT_EQ(all.at("because").as_string(), "a </script> \"reason\"");
  EXPECT_EQ(all.at("live").at("replicas").as_object().size(), 2u);
  EXPECT_EQ(all.at("window").at("replicas").at("gpu0").at("requests_per_s").as_array().size(), 30u);
  EXPECT_EQ(all.at("window").at("step_s").to_number<int>(), 1);
  EXPECT_FALSE(all.at("settings").at("settings").as_array().empty());
  EXPECT_FALSE(all.at("machine").at("kernel").as_string().empty());
  EXPECT_GT(all.at("machine").at("memory_bytes").to_number<double>(), 1e6);
  const auto html = report_page(text);
  EXPECT_THAT(html, AllOf(HasSubstr("Content-Security-Policy"), HasSubstr("a \\u003c/script> "), Not(HasSubstr("{{"))));
}

TEST_F(Report, IsOfSoMuchAsIsAskedFor) {
  for (int i = 0; i < 60; ++i) second();
  const auto ask = [&](const std::string& query) { return report_answer(query, live, settings); };
  EXPECT_THAT(ask("").content_type, HasSubstr("text/html"));
  const auto of = json::parse(ask("last=20s&format=json").body);
  EXPECT_EQ(of.at("last_s").to_number<int>(), 20);
  EXPECT_EQ(of.at("window").at("pools").at("chat").at("waiting").as_array().size(), 20u);
  EXPECT_EQ(ask("last=15m").status, 200u);
  for (const auto* wrong : {"last=16m", "last=9s", "last=", "last=-1m", "last=20", "format=pdf", "first=1m", "%"})
    EXPECT_EQ(ask(wrong).status, 400u) << wrong;
}

TEST_F(Report, OfManyReplicasHasMeansOfSeconds) {
  const auto many = settings_with(200);
  metrics::series::Exposition of_many(1, {"0.1", "test"}, {});
  fleet::Fleet large(many, of_many, 1);
  live::Live view(large, of_many, 1, [this] { return around; }, now, time);
  for (int i = 0; i < 900; ++i)
    view.tick("report-test-" + std::to_string(::getpid()), now += seconds(1), time += seconds(1));
  const auto all = json::parse(report_data(view, many, longest_report, "asked"));
  const auto step = all.at("window").at("step_s").to_number<std::size_t>();
  EXPECT_GT(step, 1u);
  std::size_t numbers = 0;
  for (const auto& [name, row] : all.at("window").at("replicas").as_object())
    for (const auto& [figure, list] : row.as_object()) numbers += list.as_array().size();
  EXPECT_LE(numbers, most_window_numbers + 200 * 9);
  EXPECT_GT(numbers, most_window_numbers / 2);
}

TEST(Thinned, AreMeansOfKnownNumbersThatEndWhereTheNumbersEnd) {
  constexpr float unknown = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(thinned({1, 2, 3}, 1), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(thinned({1, 2, 3, 4, 5}, 2), (std::vector<float>{1, 2.5, 4.5}));
  EXPECT_EQ(thinned({7, unknown, 3, 5}, 2), (std::vector<float>{7, 4}));
  EXPECT_TRUE(std::isnan(thinned({unknown, unknown}, 2).front()));
  EXPECT_TRUE(thinned({}, 3).empty());
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> numbers(random() % 50);
    for (auto& one : numbers) one = static_cast<float>(random() % 100);
    const auto step = 1 + random() % 12;
    const auto means = thinned(numbers, step);
    ASSERT_EQ(means.size(), (numbers.size() + step - 1) / step);
    for (std::size_t i = 0; i < means.size(); ++i) {
      const auto to = numbers.size() - (means.size() - 1 - i) * step, from = to > step ? to - step : 0;
      float sum = 0;
      for (auto at = from; at < to; ++at) sum += numbers[at];
      ASSERT_FLOAT_EQ(means[i], sum / static_cast<float>(to - from));
    }
  }
}

// Whatever happens: no report while weir starts or drains, none an hour after another, and one for each time that weir
// stops being ready when an hour has passed.
TEST(WhenToRecordTest, IsTheFirstTimeInAnHourThatWeirStopsBeingReady) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    WhenToRecord when;
    metrics::Moment now = metrics::Moment() + seconds(1);
    std::optional<metrics::Moment> last;
    bool ready = false, was_ready = false;
    for (int i = 0; i < 2000; ++i) {
      now += seconds(1 + random() % 60);
      if (random() % 5 == 0) ready = !ready;
      const bool draining = !ready && random() % 10 == 0;
      const bool due = when.is_due(ready, draining, now);
      const bool stops = !ready && !draining && was_ready;
      const bool expected = stops && (!last || now - *last >= std::chrono::hours(1));
      ASSERT_EQ(due, expected) << "round " << round << ", step " << i;
      if (due) last = now;
      if (ready) was_ready = true;
      if (stops) was_ready = false;
    }
  }
}

TEST(Incident, IsAWeirThatIsNotReadyOrAPoolWithoutAReplica) {
  live::Now now;
  EXPECT_EQ(incident_in(now), "");
  now.pools = {live::PoolNow{"full", 2, 1}, live::PoolNow{"empty", 0, 0}};
  EXPECT_EQ(incident_in(now), "") << "a pool that discovery has not filled yet";
  now.pools[0].up = 0;
  EXPECT_EQ(incident_in(now), "no replica of pool 'full' is up");
  now.weir.why_not_ready = "no replica is up";
  EXPECT_EQ(incident_in(now), "weir is not ready: no replica is up");
}

TEST_F(Report, IsWrittenWhenWeirStopsBeingReady) {
  around.why_not_ready = "starting";
  const auto passes = [&](int seconds_passed) {
    for (int i = 0; i < seconds_passed; ++i) {
      second();
      recorder.tick(folder, now);
      recorder.tick(folder, now);  // A second is looked at once.
    }
    finish();
  };
  passes(5);
  around.why_not_ready.clear();
  passes(5);
  EXPECT_TRUE(files().empty());
  around.why_not_ready = "no replica is up";
  passes(3);
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(files()[0], report_file_name(time - seconds(2)));
  struct stat found{};
  ASSERT_EQ(::stat((folder / files()[0]).c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0640u & ~0u);
  std::stringstream html;
  html << std::ifstream(folder / files()[0]).rdbuf();
  EXPECT_THAT(html.str(), HasSubstr("weir is not ready: no replica is up"));
  EXPECT_THAT(said.take(),
              HasSubstr("weir is not ready: no replica is up: the last minutes are in the report '" + folder.string()));
  around.why_not_ready.clear();
  passes(60);
  around.why_not_ready = "no replica is up";
  passes(60);
  EXPECT_EQ(files().size(), 1u) << "one in an hour";
  around.why_not_ready.clear();
  now += std::chrono::hours(1);
  passes(2);
  around.why_not_ready = "draining";
  around.draining = true;
  passes(2);
  EXPECT_EQ(files().size(), 1u) << "a drain is no incident";
}

TEST_F(Report, ThatCannotBeWrittenIsSaid) {
  second();
  recorder.tick("/nowhere/at/all", now);
  EXPECT_THAT(said.take(),
              HasSubstr("no report can be written into '/nowhere/at/all' ([admin] reports): No such file"));
  around.why_not_ready = "no replica is up";
  second();
  recorder.tick("/nowhere/at/all", now);
  finish();
  EXPECT_THAT(said.take(), HasSubstr("could not be written: No such file or directory"));
}

TEST_F(Report, IsOfNobodyWithoutAFolder) {
  second();
  around.why_not_ready = "no replica is up";
  second();
  recorder.tick("", now);
  EXPECT_EQ(slow.under_way(), 0u);
  EXPECT_EQ(said.take(), "");
}

TEST_F(Report, LeavesTheLatestTwentyAndNoOtherFile) {
  std::ofstream(folder / "notes.txt") << "mine";
  std::ofstream(folder / "weir-report-mine.txt") << "mine";
  const std::vector<std::string> others{"weir-report-.html", "weir-report-20200101.html",
                                        "weir-report-20200101T000000Z-outage.html", "weir-report-2020-01-01T00:00.html",
                                        "weir-report-before-the-upgrade.html"};
  for (const auto& other : others) std::ofstream(folder / other) << "mine";
  const auto link = folder / "weir-report-20200101T000000Z.html", inner = folder / "weir-report-20200101T000001Z.html";
  std::filesystem::create_symlink(folder / "notes.txt", link);
  std::filesystem::create_directory(inner);
  for (int i = 0; i < 30; ++i) std::ofstream(folder / report_file_name(time + minutes(i))) << i;
  remove_old_reports(folder);
  for (const auto& other : others) EXPECT_EQ(std::filesystem::remove(folder / other), true) << other;
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(std::filesystem::is_directory(inner));
  std::filesystem::remove(link);
  std::filesystem::remove(inner);
  const auto left = files();
  ASSERT_EQ(left.size(), most_reports + 2);
  EXPECT_EQ(left[0], "notes.txt");
  EXPECT_EQ(left[1], report_file_name(time + minutes(10)));
  EXPECT_EQ(left.back(), "weir-report-mine.txt");
  remove_old_reports("/nowhere/at/all");
}

}  // namespace
}  // namespace weir::proxy::admin
