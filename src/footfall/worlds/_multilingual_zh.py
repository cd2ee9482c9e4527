"""The arithmetic world in Chinese."""

from footfall.worlds._multilingual_words import Wordings

__all__ = ["WORDS"]

WORDS = Wordings(
    names={
        "Mia": "米娅", "Ana": "安娜", "Ruth": "露丝", "Lena": "莉娜", "Zoe": "佐伊", "Ida": "艾达", "Nora": "诺拉",
        "Eve": "伊芙",
        "Tom": "汤姆", "Ben": "本", "Sam": "山姆", "Max": "马克斯", "Leo": "利奥", "Jan": "扬", "Carl": "卡尔",
        "Omar": "奥马尔",
    },
    items={
        "stickers": "贴纸", "marbles": "弹珠", "coins": "硬币", "shells": "贝壳", "beads": "珠子", "cards": "卡片",
        "stamps": "邮票", "pencils": "铅笔", "apples": "苹果", "buttons": "纽扣", "books": "书", "stones": "石头",
        "nuts": "坚果", "keys": "钥匙", "balls": "球", "cups": "杯子",
    },
    she=("她", "她"),
    he=("他", "他"),
    plain={
        "+": ("{Who}又买了 {n} 个。", "{Who}又找到 {n} 个{item}。", "一位朋友给了{whom} {n} 个{item}。", "然后又加上 {n} 个。",
              "{Who}在游戏中赢得 {n} 个{item}。"),
        "-": ("{Who}丢了 {n} 个。", "{Who}送出 {n} 个{item}。", "{Who}卖掉其中 {n} 个。", "然后拿走 {n} 个。",
              "{Who}把 {n} 个{item}留在学校。"),
        "*": ("然后{item}的数量乘以 {n}。", "然后每个都换成 {n} 个{item}。", "一次交换后{whom}有原来的 {n} 倍。",
              "不久{who}有那个数的 {n} 倍。"),
        "/": ("然后{item}的数量除以 {n}。", "{Who}平均分成 {n} 堆，只留下其中一堆。",
              "{Who}平均装进 {n} 个袋子，只留下其中一袋。",
              "每 {n} 个{item}中{who}只留下一个。"),
    },
    tricky={
        "+": ("这比{who}{later}拥有的少 {n} 个。", "这比{who}{later}拥有的数量低 {n}。",
              "{Who}收回了很久以前送出的 {n} 个{item}。"),
        "-": ("这比{who}{later}拥有的多 {n} 个。", "这比{who}{later}拥有的数量高 {n}。",
              "{Who}归还了很久以前得到的 {n} 个{item}。"),
        "*": ("然后{item}的数量按 {n} 的倍数增长。", "{item}的数量以 {n} 为倍数增加。"),
        "/": ("这是{who}{later}拥有的 {n} 倍。", "这是{who}{later}所拥有数量的 {n} 倍。"),
    },
    later=("第二天", "一周后", "一小时后", "一个月后"),
    openings=("{name}有 {n} 个{item}。", "{name}一开始有 {n} 个{item}。", "起初{name}有 {n} 个{item}。"),
    questions=("{name}现在有多少个{item}？", "{name}最后有多少个{item}？", "现在{item}的数量是多少？"),
    first=("首先，%s。", "我们从 %s 开始。", "起初，%s。", "一开始，%s 个{item}。"),
    any=("然后 %s。", "现在 %s。", "{Who}于是有 %s 个{item}。", "所以{name}有 %s 个{item}。", "得出 %s。",
         "我们得到 %s 个{item}。"),
    by_symbol={
        "+": ("相加得 %s。", "一共是 %s 个{item}。"),
        "-": ("减去得 %s。", "剩下 %s 个{item}。"),
        "*": ("相乘得 %s。", "新的数量是 %s 个{item}。"),
        "/": ("相除得 %s。", "一份是 %s 个{item}。"),
    },
    again=("等等，应该是 %s。", "不，那错了：%s。", "我再算一次：%s。", "等等，%s 个{item}。"),
    answer="答案是 \\boxed{%s}。",
    joint="",
)  # fmt: skip
