// What `weir top` writes makes a terminal show the new screen, whatever it showed before.
#include "proxy/top/screen.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

namespace weir::proxy::top {
namespace {

/// A terminal that knows the sequences that are used, and no other.
class Emulator {
 public:
  Emulator(std::size_t lines, std::size_t columns) : cells_(lines, std::vector<Cell>(columns)) {}

  void take(std::string_view bytes) {
    while (!bytes.empty()) {
      if (bytes[0] != '\x1b') {
        ASSERT_LT(line_, cells_.size());
        ASSERT_LT(column_, cells_[line_].size());
        cells_[line_][column_++] = {bytes[0], style_};
        bytes.remove_prefix(1);
        continue;
      }
      const auto end = bytes.find_first_of("HJm");
      ASSERT_NE(end, bytes.npos);
      obey(std::string(bytes.substr(2, end - 2)), bytes[end]);
      bytes.remove_prefix(end + 1);
    }
  }

  void expect(const Screen& screen) const {
    for (std::size_t i = 0; i < screen.size(); ++i) EXPECT_EQ(cells_[i], screen[i].cells()) << "line " << i;
  }

 private:
  void obey(const std::string& arguments, char command) {
    if (command == 'J') {
      ASSERT_EQ(arguments, "2");
      for (auto& line : cells_) line.assign(line.size(), Cell{});
    } else if (command == 'H') {
      ASSERT_EQ(std::sscanf(arguments.c_str(), "%zu;%zu", &line_, &column_), 2);
      --line_;
      --column_;
    } else {
      static const std::map<std::string, Colour> colours{{"38;5;71", Colour::good},
                                                         {"38;5;178", Colour::warn},
                                                         {"38;5;203", Colour::bad},
                                                         {"38;5;245", Colour::faded}};
      style_ = {};
      auto rest = arguments.substr(1);
      const auto takes = [&](const std::string& word) {
        if (!rest.starts_with(";" + word)) return false;
        rest.erase(0, word.size() + 1);
        return true;
      };
      style_.bold = takes("1");
      style_.reversed = takes("7");
      for (const auto& [sequence, colour] : colours)
        if (takes(sequence)) style_.colour = colour;
      ASSERT_EQ(rest, "");
    }
  }

  std::vector<std::vector<Cell>> cells_;
  std::size_t line_ = 0, column_ = 0;
  Style style_;
};

Screen random_screen(std::mt19937& random, std::size_t lines, std::size_t columns) {
  Screen screen(lines, Line(columns));
  for (int i = 0; i < 12; ++i) {
    const Style style{static_cast<Colour>(random() % 5), random() % 3 == 0, random() % 3 == 0};
    const std::string text(1 + random() % 9, static_cast<char>('a' + random() % 3));
    screen[random() % lines].put(random() % columns, text, style);
  }
  return screen;
}

TEST(TopScreen, IsAsWideAsTheEnvironmentTheTerminalOrElseAHundred) {
  const std::tuple<const char*, std::size_t, std::size_t> table[] = {
      {nullptr, 0, 100}, {nullptr, 63, 63}, {"20", 0, 20},     {"20", 63, 20},  {"1", 63, 1},     {"1000", 63, 1000},
      {"1001", 63, 63},  {"0", 63, 63},     {"-5", 63, 63},    {"", 63, 63},    {"80x24", 0, 100}, {" 80", 63, 63},
      {"99999999999999999999", 0, 100}};
  for (const auto& [environment, terminal, columns] : table)
    EXPECT_EQ(printed_columns(environment, terminal), columns) << (environment ? environment : "(none)");
}

TEST(TopScreen, DifferenceMakesOneScreenOfAnother) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::size_t lines = 1 + random() % 6, columns = 1 + random() % 20;
    Emulator terminal(lines, columns);
    Screen before;
    for (int step = 0; step < 4; ++step) {
      const auto now = random_screen(random, lines, columns);
      terminal.take(difference(before, now, true));
      terminal.expect(now);
      EXPECT_EQ(difference(now, now, true), "");
      before = now;
    }
  }
}

TEST(TopScreen, AnotherSizeIsDrawnAnew) {
  const Screen small(2, Line(10)), large(3, Line(10)), wide(2, Line(11));
  EXPECT_TRUE(difference(small, large, true).starts_with("\x1b[0m\x1b[2J"));
  EXPECT_TRUE(difference(small, wide, true).starts_with("\x1b[0m\x1b[2J"));
}

TEST(TopScreen, NoByteOfOthersSteersTheTerminal) {
  Line line(40);
  line.put(0, "a\x1b[2Jb\r\n\x7f\xc2\x9b" "c\xe2\x80\xae\xf0\x9f\x98\x80");
  EXPECT_EQ(line.text(), "a?[2Jb????c??");
  Screen screen(1, Line(300));
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  screen[0].put(0, all);
  for (const char letter : text_of(screen, false)) EXPECT_TRUE((letter >= ' ' && letter <= '~') || letter == '\n');
}

TEST(TopScreen, CutsWhatHasNoRoom) {
  Line line(8);
  EXPECT_EQ(line.put(2, "abcdefgh"), 8U);
  EXPECT_EQ(line.text(), "  abcde~");
  EXPECT_EQ(line.put(0, "xyz", {}, 2), 2U);
  EXPECT_EQ(line.text(), "x~abcde~");
  EXPECT_EQ(line.put(9, "x"), 8U);
  EXPECT_EQ(Line(0).put(0, "x"), 0U);
}

TEST(TopScreen, HasNoColoursUnlessTheyAreWanted) {
  Screen screen(1, Line(5));
  screen[0].put(0, "ab", {Colour::bad, true});
  EXPECT_EQ(text_of(screen, false), "ab\n");
  EXPECT_EQ(text_of(screen, true), "\x1b[0;1;38;5;203mab\x1b[0m\n");
  EXPECT_EQ(difference({}, screen, false), "\x1b[0m\x1b[2J\x1b[1;1H\x1b[0;1mab\x1b[0m");
}

}  // namespace
}  // namespace weir::proxy::top
