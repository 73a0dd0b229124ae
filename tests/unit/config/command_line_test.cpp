// A wrong word on a command line gets the nearest right one.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "config/command_line.hpp"

namespace weir::config {
namespace {

/// A program like weir: each of its commands has one required option.
struct Program {
  Program() {
    app.require_subcommand(1);
    app.set_version_flag("--version", "weir 1");
    for (const auto* name : {"serve", "check"}) app.add_subcommand(name)->add_option("-c,--config", file)->required();
    app.get_subcommand("check")->add_flag("--probe");
    app.get_subcommand("check")->add_option("--timeout", timeout)->check(within(0.1, 3600.0));
    app.get_subcommand("check")->add_option("--rate", timeout)->check(not_negative());
    app.get_subcommand("check")->add_option("--least", timeout)->check(positive());
    app.get_subcommand("check")->add_option("--word", timeout)->transform(word_of(speeds));
    app.get_subcommand("check")->add_option("--count", count);
    app.get_subcommand("check")->add_option("--counts", counts)->delimiter(',');
  }

  std::optional<int> parse(std::vector<const char*> words) {
    words.insert(words.begin(), "/usr/bin/weir");
    return parse_command_line(app, static_cast<int>(words.size()), words.data());
  }

  CLI::App app{"Says nothing.", "weir"};
  std::string file;
  double timeout = 0;
  std::size_t count = 0;
  std::vector<unsigned> counts;
  const std::map<std::string, double> speeds{{"slow", 1}, {"soon", 2}};
};

TEST(CommandLine, ARightOneIsParsed) {
  Program program;
  EXPECT_EQ(program.parse({"check", "--probe", "-c", "weir.toml"}), std::nullopt);
  EXPECT_EQ(program.file, "weir.toml");
  EXPECT_EQ(wrong_word(program.app), "");
}

TEST(CommandLine, OfAWrongWordTheNearestIsNamed) {
  const std::pair<std::vector<const char*>, std::string> table[] = {
      {{"servv"}, "weir: \"servv\" is no command; did you mean serve?"},
      {{"chekc", "--config", "x"}, "weir: \"chekc\" is no command; did you mean check?"},
      {{"swim"}, "weir: \"swim\" is no command; known here are serve, check"},
      {{"--verison"}, "weir: \"--verison\" is no option; did you mean --version?"},
      {{"--config", "x"}, "weir: \"--config\" is no option; known here are --help, --version"},
      {{"chekc", "--help"}, "weir: \"chekc\" is no command; did you mean check?"},
      {{"help", "chekc"}, "weir: \"chekc\" is no command; did you mean check?"},
      {{"swim", "--version"}, "weir: \"swim\" is no command; known here are serve, check"},
      {{"serve", "--cofnig", "x"}, "weir serve: \"--cofnig\" is no option; did you mean --config?"},
      {{"serve", "--cofnig=x"}, "weir serve: \"--cofnig=x\" is no option; did you mean --config?"},
      {{"serve", "-c", "x", "--prbe"}, "weir serve: \"--prbe\" is no option; known here are --help, --config"},
      {{"check", "-c", "x", "--prbe"}, "weir check: \"--prbe\" is no option; did you mean --probe?"},
      {{"check", "-c", "x", "-p"},
       "weir check: \"-p\" is no option; known here are --help, --config, --probe, --timeout, --rate, --least, --word, "
       "--count, --counts"},
      {{"check", "-c", "x", "y"},
       "weir check: \"y\" is no option; known here are --help, --config, --probe, --timeout, --rate, --least, --word, "
       "--count, --counts"},
      {{"serve", "--a\nb"}, "weir serve: \"--a\\u000Ab\" is no option; known here are --help, --config"}};
  for (const auto& [words, told] : table) {
    Program program;
    testing::internal::CaptureStderr();
    EXPECT_EQ(program.parse(words), wrong_usage) << told;
    EXPECT_EQ(testing::internal::GetCapturedStderr(), told + "\nRun with --help for what is known, with examples.\n");
  }
}

TEST(CommandLine, OtherErrorsNameTheCommandAndARangeAsPeopleWriteIt) {
  const std::pair<std::vector<const char*>, std::string> table[] = {
      {{"serve"}, "weir serve: --config is required"},
      {{"check", "-c", "x", "--timeout", "9999"}, "weir check: --timeout: \"9999\" is not from 0.1 to 3600\n"},
      {{"check", "-c", "x", "--timeout", "soon"}, "weir check: --timeout: \"soon\" is not from 0.1 to 3600\n"},
      {{"check", "-c", "x", "--timeout", "nan"}, "weir check: --timeout: \"nan\" is not from 0.1 to 3600\n"},
      {{"check", "-c", "x", "--rate", "-1"}, "weir check: --rate: \"-1\" is not a number of at least 0\n"},
      {{"check", "-c", "x", "--rate", "nan"}, "weir check: --rate: \"nan\" is not a number of at least 0\n"},
      {{"check", "-c", "x", "--rate", "inf"}, "weir check: --rate: \"inf\" is not a number of at least 0\n"},
      {{"check", "-c", "x", "--least", "0"}, "weir check: --least: \"0\" is not a number above 0\n"},
      {{"check", "-c", "x", "--least", "nan"}, "weir check: --least: \"nan\" is not a number above 0\n"},
      {{"check", "-c", "x", "--least", "inf"}, "weir check: --least: \"inf\" is not a number above 0\n"},
      {{"check", "-c", "x", "--word", "son"},
       "weir check: --word: \"son\" is none of slow, soon; did you mean soon?\n"},
      {{"check", "-c", "x", "--word", "1"}, "weir check: --word: \"1\" is none of slow, soon\n"}};
  for (const auto& [words, told] : table) {
    Program program;
    testing::internal::CaptureStderr();
    EXPECT_EQ(program.parse(words), wrong_usage);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::StartsWith(told));
  }
}

TEST(CommandLine, AValueThatIsEmptyIsNone) {
  const std::pair<std::vector<const char*>, std::string> table[] = {
      {{"serve", "-c", ""}, "weir serve: --config: \"\" is no value"},
      {{"check", "--config="}, "weir check: --config"},
      {{"check", "-c", "x", "--count", ""}, "weir check: --count: \"\" is no value"},
      {{"check", "-c", "x", "--counts", ""}, "weir check: --counts: \"\" is no value"},
      {{"check", "-c", "x", "--timeout", ""}, "weir check: --timeout: \"\" is not from 0.1 to 3600"}};
  for (const auto& [words, told] : table) {
    Program program;
    testing::internal::CaptureStderr();
    EXPECT_EQ(program.parse(words), wrong_usage) << told;
    EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::StartsWith(told));
  }
}

TEST(CommandLine, AnUnsignedNumberIsAWholeOneInDecimalDigits) {
  for (const auto* const wrong : {"-1", "+1", "010", "0x10", "1.5", "1e3", " 1", "1 ", "nan", "18446744073709551616"}) {
    for (const auto* const option : {"--count", "--counts"}) {
      Program program;
      testing::internal::CaptureStderr();
      EXPECT_EQ(program.parse({"check", "-c", "x", option, wrong}), wrong_usage) << wrong;
      EXPECT_EQ(testing::internal::GetCapturedStderr(),
                std::string("weir check: ") + option + ": \"" + wrong +
                    "\" is not a whole number from 0 to 18446744073709551615, written as 1000\n"
                    "Run with --help for what is known, with examples.\n");
    }
  }
  Program program;
  EXPECT_EQ(program.parse({"check", "-c", "x", "--count", "18446744073709551615", "--counts", "0,10"}), std::nullopt);
  EXPECT_EQ(program.count, 18446744073709551615U);
  EXPECT_THAT(program.counts, testing::ElementsAre(0, 10));
}

TEST(CommandLine, TheEndsOfARangeAreInItAndAWordIsItsValue) {
  const struct {
    const char *option, *text;
    double value;
  } rows[] = {{"--timeout", "0.1", 0.1},  {"--timeout", "3600", 3600},   {"--rate", "0", 0},
              {"--rate", "1e308", 1e308}, {"--least", "1e-300", 1e-300}, {"--word", "slow", 1},
              {"--word", "soon", 2}};
  for (const auto& [option, text, value] : rows) {
    Program program;
    program.timeout = -1;
    EXPECT_EQ(program.parse({"check", "-c", "x", option, text}), std::nullopt) << option << ' ' << text;
    EXPECT_EQ(program.timeout, value) << option << ' ' << text;
  }
}

TEST(CommandLine, HelpAndVersionAreNoErrors) {
  const std::vector<const char*> table[] = {
      {}, {"--help"}, {"--version"}, {"help"}, {"help", "check"}, {"version"}, {"-V"}, {"check", "x", "--help"}};
  for (const auto& words : table) {
    Program program;
    testing::internal::CaptureStdout();
    EXPECT_EQ(program.parse(words), 0);
    const auto said = testing::internal::GetCapturedStdout();
    EXPECT_THAT(said, testing::HasSubstr("weir"));
    if (words.size() >= 2) EXPECT_THAT(said, testing::HasSubstr("--timeout"));
  }
}

TEST(CommandLine, OutputThatIsLostFailsTheProgram) {
  EXPECT_EQ(after_output(0), 0);
  EXPECT_EQ(after_output(3), 3);
  std::fflush(stdout);
  const int kept = ::dup(STDOUT_FILENO), full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(::dup2(full, STDOUT_FILENO), 0);
  std::fputs("lost\n", stdout);
  const int passed = after_output(0), failed = after_output(3);
  std::clearerr(stdout);
  const auto helped = Program().parse({"--help"});
  ::dup2(kept, STDOUT_FILENO);
  ::close(full);
  ::close(kept);
  std::clearerr(stdout);
  std::cout.clear();
  EXPECT_EQ(passed, 1);
  EXPECT_EQ(helped, 1);
  EXPECT_EQ(failed, 3);
}

constexpr std::array<std::string_view, 7> known_words = {"listen", "threads",     "url",      "max_in_flight",
                                                         "drain",  "drain_delay", "head_time"};

TEST(Nearest, FindsWhatWasMeant) {
  const std::pair<const char*, const char*> table[] = {{"listen", "listen"},
                                                       {"listne", "listen"},
                                                       {"lisen", "listen"},
                                                       {"llisten", "listen"},
                                                       {"lisden", "listen"},
                                                       {"Listen", "listen"},
                                                       {"ulr", "url"},
                                                       {"urls", "url"},
                                                       {"head_tiem", "head_time"},
                                                       {"max-in-flight", "max_in_flight"},
                                                       {"max_inflight", "max_in_flight"},
                                                       {"MAX-IN-FLIGHT", "max_in_flight"},
                                                       {"dain", "drain"}};
  for (const auto& [word, expected] : table) EXPECT_EQ(nearest(word, known_words), expected) << word;
}

TEST(Nearest, IsSilentWhereNothingIsClose) {
  for (const auto* word : {"", "x", "ur", "timeout", "tls", "lsn", "slo", "hea_", "li", "dr"})
    EXPECT_EQ(nearest(word, known_words), "") << word;
  EXPECT_EQ(nearest(std::string(100'000, 'x'), known_words), "");
  EXPECT_EQ(nearest("listen", {}), "");
}

TEST(Nearest, CompletesWhatOnlyOneBeginsWith) {
  EXPECT_EQ(nearest("max", known_words), "max_in_flight");
  EXPECT_EQ(nearest("thr", known_words), "threads");
  EXPECT_EQ(nearest("HEAD", known_words), "head_time");
  constexpr std::array<std::string_view, 2> two = {"client_idle_time", "client_stall_time"};
  EXPECT_EQ(nearest("client", two), "");
}

TEST(Nearest, TakesTheFirstOfEquals) {
  constexpr std::array<std::string_view, 2> two = {"cat", "car"};
  EXPECT_EQ(nearest("can", two), "cat");
}

}  // namespace
}  // namespace weir::config
