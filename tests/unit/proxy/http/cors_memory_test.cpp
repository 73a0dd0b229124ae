#include "proxy/http/cors_memory.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace weir::proxy::http {
namespace {

const std::string app = "https://app.example";

void note(CorsMemory& memory, const std::string& origin, const std::string& fields,
          const std::string& status = "200 OK") {
  const std::string bytes = "HTTP/1.1 " + status + "\r\nContent-Length: 0\r\n" + fields + "\r\n";
  const auto head = parse_response_head(bytes, false);
  ASSERT_TRUE(head) << bytes;
  memory.note(origin, *head);
}

TEST(CorsMemory, GivesAnOriginWhatAReplicaGaveIt) {
  CorsMemory memory;
  EXPECT_EQ(memory.fields_for(app), "");
  note(memory, app,
       "access-control-allow-origin: https://app.example\r\nAccess-Control-Allow-Credentials: true\r\n"
       "Access-Control-Expose-Headers: x-request-id\r\nAccess-Control-Allow-Methods: GET\r\nX-Other: 1\r\n");
  EXPECT_EQ(memory.fields_for(app),
            "Access-Control-Allow-Origin: https://app.example\r\nAccess-Control-Allow-Credentials: true\r\n"
            "Access-Control-Expose-Headers: x-request-id\r\nVary: Origin\r\n");
  EXPECT_EQ(memory.fields_for("https://other.example"), "");
  EXPECT_EQ(memory.fields_for(""), "");
}

TEST(CorsMemory, OfAnyOriginCoversAll) {
  CorsMemory memory;
  note(memory, app, "Access-Control-Allow-Origin: *\r\n");
  EXPECT_EQ(memory.fields_for("https://other.example"), "Access-Control-Allow-Origin: *\r\n");
  note(memory, app, "Access-Control-Allow-Origin: https://app.example\r\n");
  EXPECT_EQ(memory.fields_for(app), "Access-Control-Allow-Origin: https://app.example\r\nVary: Origin\r\n")
      << "its own comes first";
  EXPECT_EQ(memory.fields_for("https://other.example"), "Access-Control-Allow-Origin: *\r\n");
  EXPECT_EQ(memory.fields_for(""), "") << "who sends no Origin needs none";
}

TEST(CorsMemory, TheLastSuccessHolds) {
  CorsMemory memory;
  for (const std::string allowed : {"*", "https://app.example"}) {
    note(memory, app, "Access-Control-Allow-Origin: " + allowed + "\r\n", "404 Not Found");
    EXPECT_NE(memory.fields_for(app), "") << "an error can give";
    note(memory, app, "", "500 Internal Server Error");
    EXPECT_NE(memory.fields_for(app), "") << "but servers leave the fields out of some errors";
    note(memory, app, "");
    EXPECT_EQ(memory.fields_for(app), "");
  }
}

TEST(CorsMemory, IsBoundedAndForgetsTheOldest) {
  CorsMemory memory;
  const auto origin = [](std::size_t i) { return "https://" + std::to_string(i) + ".example"; };
  note(memory, "https://any.example", "Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: any\r\n");
  for (std::size_t i = 0; i < CorsMemory::most_origins; ++i)
    note(memory, origin(i), "Access-Control-Allow-Origin: " + origin(i) + "\r\n");
  note(memory, origin(0), "Access-Control-Allow-Origin: " + origin(0) + "\r\n");
  const auto own = [&](std::size_t i) { return memory.fields_for(origin(i)).find(origin(i)) != std::string::npos; };
  for (std::size_t i = 0; i < CorsMemory::most_origins; ++i) EXPECT_TRUE(own(i)) << i;
  note(memory, origin(100), "Access-Control-Allow-Origin: " + origin(100) + "\r\n");
  EXPECT_TRUE(own(0)) << "noted again a moment ago";
  EXPECT_FALSE(own(1));
  EXPECT_TRUE(own(2));
  EXPECT_TRUE(own(100));
  EXPECT_NE(memory.fields_for(origin(1)), "") << "what holds for any stays";
}

TEST(CorsMemory, TakesNothingLongAndNothingThatIsNoField) {
  CorsMemory memory;
  note(memory, app,
       "Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: " + std::string(500, 'x') + "\r\n");
  EXPECT_EQ(memory.fields_for(app), "");
  note(memory, "https://" + std::string(500, 'x'), "Access-Control-Allow-Origin: https://app.example\r\n");
  EXPECT_EQ(memory.fields_for("https://" + std::string(500, 'x')), "");
  note(memory, app, "Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: a\tb\r\n");
  EXPECT_EQ(memory.fields_for(app), "");

  ResponseHead forged;  // No head that the gate has read is like this.
  forged.status = 200;
  forged.fields = {{"Access-Control-Allow-Origin", "*\r\nSet-Cookie: a=b"}};
  memory.note(app, forged);
  EXPECT_EQ(memory.fields_for(app), "");
  forged.fields = {{"Access-Control-Allow-Origin", "x"}};
  memory.note("a\r\nb", forged);
  EXPECT_EQ(memory.fields_for("a\r\nb"), "");
  memory.note("*", forged);
  EXPECT_EQ(memory.fields_for(app), "") << "an Origin of \"*\" is no way to speak for all";
}

TEST(CorsMemory, IsForManyThreads) {
  CorsMemory memory;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&memory, t] {
      for (int i = 0; i < 300; ++i) {
        const auto origin = "https://" + std::to_string((t + i) % 90);
        note(memory, origin, "Access-Control-Allow-Origin: " + origin + "\r\n");
        const auto fields = memory.fields_for(origin);
        const auto given = "Access-Control-Allow-Origin: " + origin + "\r\nVary: Origin\r\n";
        EXPECT_TRUE(fields.empty() || fields == given) << fields;
      }
    });
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace weir::proxy::http
