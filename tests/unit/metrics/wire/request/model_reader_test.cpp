#include "metrics/wire/request/model_reader.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

namespace weir::metrics::wire {
namespace {

std::string model_of(const std::string& body, std::size_t piece) {
  ModelReader reader;
  for (std::size_t at = 0; at < body.size(); at += piece) {
    const auto part = body.substr(at, piece);
    reader.feed(part);
  }
  return reader.model();
}

TEST(ModelReader, ReadsTheOutermostModelWhateverTheSplit) {
  const std::tuple<std::string, std::string> table[] = {
      {R"({"model":"m"})", "m"},
      {R"({"messages":[{"role":"user","content":"\"model\":\"x\"","model":"y"}],"model":"org/m-7b","n":1})",
       "org/m-7b"},
      {R"({"options":{"model":"inner"},"prompt":"p"})", ""},
      {R"({"model":"a","model":"b"})", "b"},
      {R"({"model":"a","model":7})", ""},
      {R"({"model":["a"]})", ""},
      {R"({"model":{"model":"a"}})", ""},
      {R"(["model","a"])", ""},
      {R"({"model":"\u006d\n"})", "m\n"},
      {R"({"model":null})", ""},
      {R"({"model":"m")", ""},
      {R"({"model":"m"} x)", ""},
      {"no json", ""},
      {"", ""},
      {R"({"model":")" + std::string(300, 'x') + R"("})", std::string(128, 'x')}};
  for (const auto& [body, model] : table)
    for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, std::size_t{7}, body.size() + 1})
      EXPECT_EQ(model_of(body, piece), model) << body << " in pieces of " << piece;
}

TEST(ModelReader, KnowsTheModelOfABeginningOnceItsTextIsWhole) {
  const std::tuple<std::string, std::string> table[] = {{R"({"model":"m","prom)", "m"},
                                                        {R"({"model":"m")", "m"},
                                                        {R"({"a":[{"model":"x"}],"model":"m",)", "m"},
                                                        {R"({"model":"m)", ""},
                                                        {R"({"prompt":"model)", ""},
                                                        {R"({"a":{"model":"x"},)", ""},
                                                        {R"(["model","m",)", ""},
                                                        {R"({"model":["m"],)", ""},
                                                        {R"({"model":"a","model":"b)", ""},
                                                        {R"({"model":"a","model":7,)", ""},
                                                        {"", ""}};
  for (const auto& [body, model] : table) {
    ModelReader reader;
    reader.feed(body);
    EXPECT_EQ(reader.model_so_far(), model) << body;
  }
}

TEST(ModelReader, AnUnreadRequestHasNoOtherFacts) {
  ModelReader reader;
  reader.feed(std::string_view(R"({"model":"m","stream":true,"max_tokens":7,"messages":[]})"));
  const auto post = facts_of_unread("POST", reader);
  EXPECT_EQ(post.model, "m");
  EXPECT_EQ(post.api, Api::other);
  EXPECT_TRUE(post.gives_work);
  EXPECT_FALSE(post.stream);
  EXPECT_TRUE(post.whole_json);
  EXPECT_FALSE(post.first_member_at) << "so that nothing is put into it";
  const auto get = facts_of_unread("GET", ModelReader());
  EXPECT_FALSE(get.gives_work);
  EXPECT_FALSE(get.whole_json);
}

}  // namespace
}  // namespace weir::metrics::wire
